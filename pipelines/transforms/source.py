"""The source text of users' row transforms, parsed and checked but never run."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from pipelines.errors import ArgumentError, PipelineError, Problem
from pipelines.language.columns import check_column_name, check_not_reserved
from pipelines.language.names import normalize, truncate_name
from pipelines.transforms.schema import Types, get_last_name, is_none, parse_annotation, parse_expression

MAX_BYTES = 64 * 1024
_MAX_MESSAGE = 500
_ANY_ROW = ("dict", "Dict", "Mapping", "MutableMapping", "Any", "object")


@dataclass(frozen=True, slots=True)
class Keywords:
    """The keyword parameters of a function; `others` if it accepts any."""

    names: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    others: bool = False


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """The function of a transform; `columns` is None if it does not declare them."""

    name: str
    keywords: Keywords
    columns: Types | None


def read_function(name: str, text: str) -> FunctionSignature:
    """Return the function of the transform `name`; raise PipelineError with located problems."""
    module = _parse_module(text)
    function = _find_function(name, module)
    try:
        return FunctionSignature(function.name, _read_keywords(function), _read_columns(function, module))
    except RecursionError:
        raise PipelineError([_make_problem(function, f"what {function.name} returns is nested too deep")]) from None


def list_functions(text: str) -> tuple[str, ...]:
    """Return the names of the public functions; raise PipelineError for a syntax error."""
    functions = (node.name for node in _parse_module(text).body if isinstance(node, ast.FunctionDef))
    return tuple(dict.fromkeys(name for name in functions if not name.startswith("_")))


def _parse_module(text: str) -> ast.Module:
    if len(text.encode(errors="replace")) > MAX_BYTES:
        message = f"a row transform may have at most {MAX_BYTES // 1024} KiB"
        raise PipelineError([Problem("", message, code="too-large")])
    try:
        return ast.parse(text, type_comments=False)
    except SyntaxError as error:
        problem = Problem("", f"not Python: {error.msg}", error.lineno, error.offset, "invalid-python")
        raise PipelineError([problem]) from None
    except (ValueError, RecursionError, MemoryError):
        raise PipelineError([Problem("", "not Python: it does not parse", code="invalid-python")]) from None


def _find_function(name: str, module: ast.Module) -> ast.FunctionDef:
    """Return the function with the transform's name in any spelling, or the only function."""
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    named = [node for node in functions if normalize(node.name) == normalize(name)]
    public = [node for node in functions if not node.name.startswith("_")]
    found = named or public
    if len(found) == 1:
        return found[0]
    if named:
        twice = f"{named[1].name} is defined twice: the first time in line {named[0].lineno}"
        raise PipelineError([_make_problem(named[1], twice)])
    if any(isinstance(node, ast.AsyncFunctionDef) for node in module.body):
        message = f"the row transform '{name}' must be a plain function, without async"
        raise PipelineError([Problem("", message, code="invalid-function")])
    message = f"there is no function '{name}': write def {name}(row): ... that returns a row"
    raise PipelineError([Problem("", message, code="missing-function")])


def _read_keywords(function: ast.FunctionDef) -> Keywords:
    """Return the keywords; raise PipelineError if the function cannot be called with a row and keywords."""
    arguments = function.args
    positional = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    needed = positional[: len(positional) - len(arguments.defaults)]
    if not positional and not arguments.vararg:
        raise PipelineError([_make_problem(function, f"{function.name} must take the row as its first argument")])
    if len(arguments.posonlyargs) > 1:
        raise PipelineError([_make_problem(function, f"{function.name} must take all but the row by name")])
    names = (*positional[1:], *(each.arg for each in arguments.kwonlyargs))
    required = (*needed[1:], *_list_required_keywords(arguments))
    return Keywords(names, required, arguments.kwarg is not None)


def _list_required_keywords(arguments: ast.arguments) -> list[str]:
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return [each.arg for each, default in pairs if default is None]


def _read_columns(function: ast.FunctionDef, module: ast.Module) -> Types | None:
    """Return the columns of the return annotation: a TypedDict, a dataclass, or a dict of names and types."""
    node = _unwrap_annotation(function.name, function.returns)
    if node is None or is_none(node):
        return None
    if isinstance(node, ast.Dict):
        return tuple(_read_field(key, value) for key, value in zip(node.keys, node.values, strict=True))
    name = get_last_name(node.value if isinstance(node, ast.Subscript) else node)
    if name in _ANY_ROW:
        return None
    declared = next((each for each in module.body if isinstance(each, ast.ClassDef) and each.name == name), None)
    if declared is None or not _is_record(declared):
        message = f"{function.name} must return a row: a dict, or a TypedDict or dataclass that is declared in the text"
        raise PipelineError([_make_problem(node, message)])
    fields = [each for each in declared.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
    return tuple(_read_field(each.target, each.annotation) for each in fields)


def _unwrap_annotation(function: str, node: ast.expr | None) -> ast.expr | None:
    """Return the annotation without quotes, Optional and None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        inside = parse_expression(node.value)
        if inside is None:
            raise PipelineError([_make_problem(node, f"what {function} returns cannot be read")])
        return _unwrap_annotation(function, inside)
    if isinstance(node, ast.BinOp):
        sides = [side for side in (node.left, node.right) if not is_none(side)]
        return _unwrap_annotation(function, sides[0]) if len(sides) == 1 else node
    if isinstance(node, ast.Subscript) and get_last_name(node.value) == "Optional":
        return _unwrap_annotation(function, node.slice)
    return node


def _is_record(node: ast.ClassDef) -> bool:
    decorators = (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)
    return any(get_last_name(base) == "TypedDict" for base in node.bases) or "dataclass" in map(
        get_last_name, decorators
    )


def _read_field(key: ast.expr | None, annotation: ast.expr) -> tuple[str, str]:
    name = key.id if isinstance(key, ast.Name) else key.value if isinstance(key, ast.Constant) else None
    if not isinstance(name, str):
        raise PipelineError([_make_problem(annotation, "a column's name must be a text")])
    try:
        check_column_name(name)
        check_not_reserved(name)
    except ArgumentError as error:
        raise PipelineError([_make_problem(annotation, str(error), error.code)]) from None
    type_ = parse_annotation(annotation)
    if type_ is None:
        problem = make_type_problem(name)
        raise PipelineError([_make_problem(annotation, problem.message, problem.code)])
    return name, type_


def make_type_problem(name: str) -> Problem:
    """Return the problem of a declared type that fits no column."""
    message = (
        f"the type of '{truncate_name(name)}' fits no column; columns are str, int, float, bool, bytes, date, "
        "datetime, Decimal or Annotated[Decimal, 'decimal(10,2)'], list[...] and dict[str, ...] of these, each also "
        "with | None"
    )
    return Problem("", message, code="invalid-type")


def _make_problem(node: ast.expr | ast.FunctionDef, message: str, code: str = "invalid-function") -> Problem:
    return Problem("", message[:_MAX_MESSAGE], node.lineno, node.col_offset + 1, code)
