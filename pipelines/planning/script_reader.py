"""Reading of scripts that `script.py` has written, also after changes by hand; nothing of them is run.

Their values are literals, so a pipeline can be read from its syntax tree, without a run.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from pipelines.environments.packages import MAX_PACKAGES, get_name, validate_package, validate_packages
from pipelines.errors import ArgumentError, PipelineError, Problem
from pipelines.language.nodes import MAX_BYTES, Plain
from pipelines.planning.script import stage

_BLOCKS = ("fetch", "stages", "output", "spindle", "checks")


@dataclass(frozen=True, slots=True)
class Script:
    """The pipeline of a script, as keys and values of its YAML, and the row transforms that it has, by name."""

    pipeline: Mapping[str, Plain]
    transforms: Mapping[str, str]


def read_script(text: str) -> Script | None:
    """Return what a script has; None for a text that assigns no `Pipeline.of(...)` to `pipeline`.

    Raises PipelineError with a line where a value is computed.
    """
    if "Pipeline.of" not in text or len(text.encode(errors="replace")) > MAX_BYTES:
        return None
    body = _parse(text)
    assigned = _list_assigned(body)
    call = assigned.get("pipeline")
    if not isinstance(call, ast.Call) or ast.unparse(call.func) != "Pipeline.of":
        return None
    return Script(_read_pipeline(call), _read_transforms(body, assigned))


def read_transforms(text: str) -> Mapping[str, str]:
    """Return the row transforms that a Python text hands to `pipeline.run`, by name; empty where it computes them."""
    body = _parse(text)
    with suppress(PipelineError):
        return _read_transforms(body, _list_assigned(body))
    return {}


@dataclass(frozen=True, slots=True)
class CodePackages:
    """The packages that a Python code names for itself, each with its line and column."""

    places: Mapping[str, tuple[int, int]]

    @property
    def packages(self) -> tuple[str, ...]:
        return tuple(sorted(self.places))

    def locate_package_problem(self, name: str | None, code: str, message: str) -> Problem:
        """Return a problem of the package with this name, or else of the first one."""
        own = (place for package, place in self.places.items() if get_name(package) == name)
        return Problem("spindle.packages", message, *next(own, min(self.places.values())), code)


def read_packages(text: str) -> CodePackages:
    """Return the packages in `pipeline = Pipeline.of(spindle={"packages": [...]})`; none where they are computed.

    Raises PipelineError for one that is not of an exact version, or is named twice.
    """
    assigned = _list_assigned(_parse(text))
    call = assigned.get("pipeline")
    if not isinstance(call, ast.Call) or ast.unparse(call.func) != "Pipeline.of":
        return CodePackages({})
    options = _follow_name(next((each.value for each in call.keywords if each.arg == "spindle"), None), assigned)
    named = None
    if isinstance(options, ast.Dict):
        pairs = zip(options.keys, options.values, strict=True)
        named = next((value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "packages"), None)
    listed = _follow_name(named, assigned)
    elements = listed.elts if isinstance(listed, ast.List | ast.Tuple) and len(listed.elts) <= MAX_PACKAGES else []
    places: dict[str, tuple[int, int]] = {}
    for each in elements:
        if not (isinstance(each, ast.Constant) and isinstance(each.value, str)):
            return CodePackages({})
        place = each.lineno, each.col_offset + 1
        try:
            package = validate_package(each.value)
            validate_packages((*places, package))
        except ArgumentError as error:
            raise PipelineError([Problem("spindle.packages", str(error), *place, error.code)]) from error
        places[package] = place
    return CodePackages(places)


def _follow_name(node: ast.expr | None, assigned: Mapping[str, ast.expr]) -> ast.expr | None:
    """Return the value of a name that the code assigns at its top, and any other expression as it is."""
    return assigned.get(node.id) if isinstance(node, ast.Name) else node


def _parse(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _list_assigned(body: list[ast.stmt]) -> dict[str, ast.expr]:
    return {name: each.value for each in body if isinstance(each, ast.Assign) and (name := _get_name(each))}


def _get_name(assignment: ast.Assign) -> str | None:
    target = assignment.targets[0]
    return target.id if isinstance(target, ast.Name) else None


def _read_pipeline(call: ast.Call) -> Mapping[str, Plain]:
    given = {each.arg: each.value for each in call.keywords}
    unknown = next((each for each in call.keywords if each.arg not in _BLOCKS), None)
    if unknown is not None or call.args:
        raise _refuse(unknown.value if unknown else call.args[0], f"Pipeline.of takes {', '.join(_BLOCKS)} by name")
    blocks = {key: _evaluate(given[key]) for key in _BLOCKS if key in given}
    stages = blocks.pop("stages", [])
    before = {key: blocks.pop(key) for key in ("fetch",) if key in blocks}
    return {**before, "pipeline": stages, **blocks}


def _read_transforms(body: list[ast.stmt], assigned: Mapping[str, ast.expr]) -> Mapping[str, str]:
    """Return the functions of the last argument of `pipeline.run(...)`, whose values are names of constants."""
    for node in (each for statement in body for each in ast.walk(statement)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pipeline.run" and len(node.args) == 4:
            functions = node.args[3]
            if not isinstance(functions, ast.Dict) or not all(functions.keys):
                raise _refuse(functions, "functions are a map from their names to their texts")
            texts = (assigned.get(each.id, each) if isinstance(each, ast.Name) else each for each in functions.values)
            pairs = ((_evaluate(key), _evaluate(text)) for key, text in zip(functions.keys, texts, strict=True) if key)
            return {str(name): str(text) for name, text in pairs}
    return {}


def _evaluate(node: ast.expr) -> Plain:
    """Return the value of a literal, of `stage(...)` or of `float("inf")`."""
    match node:
        case ast.Dict(keys, values) if all(keys):
            return {_read_key(key): _evaluate(value) for key, value in zip(keys, values, strict=True) if key}
        case ast.List(elements) | ast.Tuple(elements):
            return [_evaluate(each) for each in elements]
        case ast.Call(ast.Name("stage"), [name, *arguments], keywords) if all(each.arg for each in keywords):
            return _evaluate_stage(name, arguments, {cast(str, each.arg): each.value for each in keywords})
        case ast.Call(ast.Name("float"), [ast.Constant(str(text))], []) if text.lstrip("-") in ("inf", "nan"):
            return float(text)
        case _:
            try:
                value: Any = ast.literal_eval(node)
            except ValueError:
                value = node
            if value is None or isinstance(value, str | int | float):
                return value
            raise _refuse(node, "only values that are written out can be read from a script")


def _read_key(node: ast.expr) -> str:
    key = _evaluate(node)
    if not isinstance(key, str):
        raise _refuse(node, "a key is a text")
    return key


def _evaluate_stage(name: ast.expr, arguments: list[ast.expr], named: Mapping[str, ast.expr]) -> Plain:
    values = {key: _evaluate(value) for key, value in named.items()}
    return stage(_read_key(name), *map(_evaluate, arguments), **values)


def _refuse(node: ast.expr, message: str) -> PipelineError:
    found = ast.unparse(node)
    shown = found if len(found) <= 60 else f"{found[:60]}…"
    return PipelineError(
        [Problem("", f"{message}, not {shown}", node.lineno, node.col_offset + 1, "invalid-structure")]
    )
