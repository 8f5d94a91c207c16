"""Nodes → argument models: positional or by name, in any accepted spelling; every fault keeps its line."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from inspect import isclass
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from pipelines.errors import MAX_PROBLEMS, NOT_READ, PipelineError, Problem
from pipelines.language.names import describe_unknown, normalize
from pipelines.language.nodes import MappingNode, Node, Plain, ScalarNode, SequenceNode, locate_problem
from pipelines.language.parameters import has_open_parameter


class Arguments(BaseModel):
    """Frozen arguments whose names ignore case and underscores."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True)

    @model_validator(mode="before")
    @classmethod
    def _spellings(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        known = {normalize(name): name for name in cls.argument_names()}
        return {known.get(normalize(str(name)), name): value for name, value in data.items()}

    @classmethod
    def argument_names(cls) -> tuple[str, ...]:
        """Names as users write them."""
        return tuple(field.alias or name for name, field in cls.model_fields.items())


Model = TypeVar("Model", bound=Arguments)


def bind_list(model: type[Model], node: Node | None, positional: tuple[str, ...], rest: str | None) -> Model:
    """Arguments given as a list, a map or one bare value; raises PipelineError.

    A list fills `positional` in order and then `rest`; a map in the list gives arguments by name where the stage
    takes no list of maps.
    """
    if node is None or (isinstance(node, ScalarNode) and node.value is None):
        return bind(model, MappingNode((), *((node.line, node.column) if node else (1, 1))))
    if isinstance(node, MappingNode):
        return bind(model, node)
    items = node.items if isinstance(node, SequenceNode) else (node,)
    return bind(model, _by_name(model, items, node, positional, rest))


def _by_name(
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
            takes = ", ".join(model.argument_names()) or "none"
            raise PipelineError(
                [locate_problem(item, f"too many arguments; it takes {takes}; a comma in one needs quotes")]
            )
    if rest is not None and others:
        place = others[0]
        named.append(
            (ScalarNode(rest, place.line, place.column), SequenceNode(tuple(others), place.line, place.column))
        )
    return MappingNode(tuple(named), node.line, node.column)


def bind(model: type[Model], node: MappingNode) -> Model:
    """The model of a map node; raises PipelineError with a problem for each wrong argument.

    Where a parameter without a value does not fit, a number stands in for it: only the shape is checked.
    """
    try:
        return model.model_validate(node.plain())
    except ValidationError as error:
        if has_open_parameter(node):
            with suppress(ValidationError):  # then the first error is told
                return model.model_validate(_stand_in(node))
        raise PipelineError(_problems(model, node, error)) from None


def _stand_in(node: Node) -> Plain:
    """The plain tree with a number for every parameter that has no value."""
    if isinstance(node, SequenceNode):
        return [_stand_in(item) for item in node.items]
    if isinstance(node, ScalarNode):
        return "1" if has_open_parameter(node) else node.value
    return {str(key.value): _stand_in(child) for key, child in node.entries}


def describe_faults(model: type[Arguments], error: ValidationError) -> list[str]:
    """What is wrong with the arguments of a model, each fault in a sentence."""
    return [_sentence(model, fault) for fault in error.errors(include_url=False, include_context=False)]


def _problems(model: type[Arguments], node: MappingNode, error: ValidationError) -> Iterable[Problem]:
    faults = error.errors(include_url=False, include_context=False)
    within = {fault["loc"][:depth] for fault in faults for depth in range(len(fault["loc"]))}
    for count, fault in enumerate(faults):
        if fault["type"] == "too_short" and fault["loc"] in within:  # short only because an item in it is wrong
            continue
        place, path = _place(node, fault["loc"])
        if count >= MAX_PROBLEMS:
            yield locate_problem(place, NOT_READ, path)
            return
        yield locate_problem(place, _sentence(model, fault), path)


def _place(node: Node, loc: tuple[int | str, ...]) -> tuple[Node, str]:
    """The deepest node on the way to `loc`, and the way to it."""
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
    "too_short": "'{name}' must not be empty",
}


def _sentence(model: type[Arguments], fault: ErrorDetails) -> str:
    name = str(next((part for part in reversed(fault["loc"]) if isinstance(part, str)), ""))
    if fault["type"] == "extra_forbidden":
        place = fault["loc"][:-1]
        lists = [each for each in model.model_fields if not place and name in _arguments_at(model, (each,))]
        if lists and name not in model.argument_names():
            return f"'{name}' is of an item of {lists[0]}, which is a list: write '- ' before each of its maps"
        return describe_unknown("argument", name, _arguments_at(model, place))
    if fault["type"] == "model_type":
        return f"an item of '{name}' must be a map with {', '.join(_arguments_at(model, fault['loc']))}"
    if fault["type"] in _SENTENCES:
        return _SENTENCES[fault["type"]].format(name=name)
    message = fault["msg"].removeprefix("Value error, ")
    return message if fault["type"] == "value_error" else f"'{name}': {message[0].lower()}{message[1:]}"


def _arguments_at(model: type[Arguments], loc: tuple[int | str, ...]) -> tuple[str, ...]:
    """Names that the model, or the nested one that `loc` leads to, takes."""
    for part in loc:
        field = next((each for name, each in model.model_fields.items() if part in (name, each.alias)), None)
        inner = [each for each in get_args(field.annotation) if isclass(each)] if field else []
        model = next((each for each in inner if issubclass(each, Arguments)), model)
    return model.argument_names()
