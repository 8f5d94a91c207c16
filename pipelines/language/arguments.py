"""Arguments of stages: binds nodes to pydantic models and locates every problem in the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from inspect import isclass
from typing import Any, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from pipelines.errors import MAX_PROBLEMS, TOO_MANY_PROBLEMS, ArgumentError, PipelineError, Problem
from pipelines.language.names import describe_unknown, normalize
from pipelines.language.nodes import MappingNode, Node, Plain, ScalarNode, SequenceNode, locate_problem
from pipelines.language.parameters import has_open_parameter
from pipelines.language.plugin_scope import ALL_PLUGINS, PluginScope, UploadedPart


class Arguments(BaseModel):
    """Frozen arguments whose names ignore case and underscores."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True)
    _uploaded: UploadedPart | None = None  # of which these are the arguments, where this process does not have its code

    @model_validator(mode="before")
    @classmethod
    def _normalize_names(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        known = {normalize(name): name for name in cls.list_argument_names()}
        return {known.get(normalize(str(name)), name): value for name, value in data.items()}

    @classmethod
    def list_argument_names(cls) -> tuple[str, ...]:
        """Return the names as users write them."""
        return tuple(field.alias or name for name, field in cls.model_fields.items())

    def mark_uploaded(self, part: UploadedPart) -> Self:
        """Return these arguments as those of a part of an uploaded plugin."""
        marked = self.model_copy()
        marked._uploaded = part
        return marked

    def list_uploaded(self) -> Iterator[UploadedPart]:
        """Yield the parts of uploaded plugins that these arguments and those within them belong to."""
        if self._uploaded is not None:
            yield self._uploaded
        for value in self.__dict__.values():
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, Arguments):
                    yield from each.list_uploaded()


Model = TypeVar("Model", bound=Arguments)


def bind_list(
    model: type[Model],
    node: Node | None,
    positional: tuple[str, ...],
    rest: str | None,
    plugins: PluginScope = ALL_PLUGINS,
) -> Model:
    """Bind arguments that are given as a list, a map or one bare value; raises PipelineError.

    The items of a list fill `positional` in order and then the list `rest`. A map in the list gives arguments by name,
    unless the model has a `rest`, whose items may be maps.
    """
    if node is None or (isinstance(node, ScalarNode) and node.value is None):
        return bind(model, MappingNode((), *((node.line, node.column) if node else (1, 1))), plugins)
    if isinstance(node, MappingNode):
        return bind(model, node, plugins)
    items = node.items if isinstance(node, SequenceNode) else (node,)
    return bind(model, _name_items(model, items, node, positional, rest), plugins)


def _name_items(
    model: type[Arguments], items: tuple[Node, ...], node: Node, positional: tuple[str, ...], rest: str | None
) -> MappingNode:
    named: list[tuple[ScalarNode, Node]] = []
    free = list(positional)
    others: list[Node] = []
    for item in items:
        if isinstance(item, MappingNode) and rest is None:
            named.extend(item.entries)
        elif free:
            named.append((ScalarNode(free.pop(0), item.line, item.column), item))
        elif rest is not None:
            others.extend(item.items if isinstance(item, SequenceNode) else (item,))
        else:
            names = ", ".join(model.list_argument_names()) or "none"
            message = f"too many arguments; it takes {names}; a comma in one needs quotes"
            raise PipelineError([locate_problem(item, "too-many-arguments", message)])
    if rest is not None and others:
        line, column = others[0].line, others[0].column
        named.append((ScalarNode(rest, line, column), SequenceNode(tuple(others), line, column)))
    return MappingNode(tuple(named), node.line, node.column)


def bind(model: type[Model], node: MappingNode, plugins: PluginScope = ALL_PLUGINS) -> Model:
    """Bind a map to a model; raises PipelineError with a problem for every invalid argument.

    Where an open parameter does not validate, a number replaces it, so that only the shape is checked. Validators get
    `plugins` as their context.
    """
    try:
        return model.model_validate(node.to_plain(), context=plugins)
    except ValidationError as error:
        if has_open_parameter(node):
            with suppress(ValidationError):  # report the first error instead
                return model.model_validate(_fill_open_parameters(node), context=plugins)
        raise PipelineError(_locate_faults(model, node, error)) from None


def _fill_open_parameters(node: Node) -> Plain:
    """Return the plain tree with a number for every value that refers to a parameter."""
    if isinstance(node, SequenceNode):
        return [_fill_open_parameters(item) for item in node.items]
    if isinstance(node, ScalarNode):
        return "1" if has_open_parameter(node) else node.value
    return {str(key.value): _fill_open_parameters(child) for key, child in node.entries}


@dataclass(frozen=True, slots=True)
class Fault:
    """One error of a model's validation, as a sentence with a code; `loc` is pydantic's path to the argument."""

    loc: tuple[int | str, ...]
    message: str
    code: str
    may_come: bool


def describe_faults(model: type[Arguments], error: ValidationError) -> list[Fault]:
    """Describe the faults that validation found."""
    faults = error.errors(include_url=False)
    within = {fault["loc"][:depth] for fault in faults for depth in range(len(fault["loc"]))}
    return [
        Fault(fault["loc"], _describe(model, fault), *_get_cause(fault))
        for fault in faults
        if fault["type"] != "too_short" or fault["loc"] not in within  # then it is short because an item is invalid
    ]


def _locate_faults(model: type[Arguments], node: MappingNode, error: ValidationError) -> Iterable[Problem]:
    for count, fault in enumerate(describe_faults(model, error)):
        found, path = _follow(node, fault.loc)
        if count >= MAX_PROBLEMS:
            yield locate_problem(found, "too-many-problems", TOO_MANY_PROBLEMS, path)
            return
        yield locate_problem(found, fault.code, fault.message, path, fault.may_come)


def _follow(node: Node, loc: tuple[int | str, ...]) -> tuple[Node, str]:
    """Return the deepest node on the way to `loc`, and its path."""
    path = ""
    for part in loc:
        if isinstance(part, int) and isinstance(node, SequenceNode) and part < len(node.items):
            node, path = node.items[part], f"{path}[{part}]"
            continue
        entries = node.entries if isinstance(node, MappingNode) else ()
        found = next((child for key, child in entries if normalize(str(key.value)) == normalize(str(part))), None)
        if found is None:
            break
        node, path = found, f"{path}.{part}" if path else str(part)
    return node, path


_SENTENCES = {
    "missing": "'{name}' is missing",
    "string_type": "'{name}' must be text; put quotes around it",
    "int_parsing": "'{name}' must be a whole number",
    "int_type": "'{name}' must be a whole number",
    "bool_parsing": "'{name}' must be true or false",
    "bool_type": "'{name}' must be true or false",
    "tuple_type": "'{name}' must be a list",
    "dict_type": "'{name}' must be a map",
    "too_short": "'{name}' must not be empty",
}
_CODES = {"missing": "missing-argument", "extra_forbidden": "unknown-argument"}


def _get_cause(fault: ErrorDetails) -> tuple[str, bool]:
    cause = fault.get("ctx", {})
    error = cause.get("error")
    if isinstance(error, ArgumentError):
        return error.code, error.may_come
    return cause.get("code") or _CODES.get(fault["type"], "invalid-argument"), cause.get("may_come", False)


def _describe(model: type[Arguments], fault: ErrorDetails) -> str:
    name = str(next((part for part in reversed(fault["loc"]) if isinstance(part, str)), ""))
    if fault["type"] == "extra_forbidden":
        loc = fault["loc"][:-1]
        lists = [each for each in model.model_fields if not loc and name in _list_names_at(model, (each,))]
        if lists and name not in model.list_argument_names():
            return f"'{name}' belongs to an item of {lists[0]}, which is a list: write '- ' before each of its maps"
        return describe_unknown("argument", name, _list_names_at(model, loc))
    if fault["type"] == "model_type":
        return f"an item of '{name}' must be a map with {', '.join(_list_names_at(model, fault['loc']))}"
    if fault["type"] in _SENTENCES:
        return _SENTENCES[fault["type"]].format(name=name)
    message = fault["msg"].removeprefix("Value error, ")
    return message if fault["type"] == "value_error" else f"'{name}': {message[0].lower()}{message[1:]}"


def _list_names_at(model: type[Arguments], loc: tuple[int | str, ...]) -> tuple[str, ...]:
    """Return the argument names of the model, or of the nested model at `loc`."""
    for part in loc:
        field = next((each for name, each in model.model_fields.items() if part in (name, each.alias)), None)
        inner = [each for each in get_args(field.annotation) if isclass(each)] if field else []
        model = next((each for each in inner if issubclass(each, Arguments)), model)
    return model.list_argument_names()
