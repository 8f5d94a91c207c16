"""Parameters: `${NAME}` and `${NAME:-default}`, replaced in the node tree so that a value is never parsed as YAML."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import islice

from pipelines.errors import MAX_PROBLEMS, PipelineError, Problem
from pipelines.language.names import describe_unknown, truncate_name
from pipelines.language.nodes import MappingNode, Node, ScalarNode, SequenceNode, iter_scalars, locate_problem

Value = str | int | float | bool

_REFERENCE = re.compile(r"\$\{([^{}\s]+?)(?::-([^{}]*))?\}")  # the second group is a default


class ParameterText(str):
    """A text that begins with a parameter's value: a `$` at its beginning may belong to a password."""

    __slots__ = ()


def has_reference(text: str) -> bool:
    """Return whether the text contains a `${NAME}`."""
    return _REFERENCE.search(text) is not None


def has_open_parameter(node: Node) -> bool:
    """Return whether a value below `node` refers to a parameter."""
    return any(isinstance(scalar.value, str) and has_reference(scalar.value) for scalar in iter_scalars(node))


def find_parameters(node: Node) -> frozenset[str]:
    """Return the names of all parameters that the tree refers to."""
    texts = (scalar.value for scalar in iter_scalars(node) if isinstance(scalar.value, str))
    return frozenset(name for text in texts for name, _ in _REFERENCE.findall(text))


def find_required_parameters(node: Node) -> frozenset[str]:
    """Return the names of those that have no default wherever the tree refers to them."""
    texts = (scalar.value for scalar in iter_scalars(node) if isinstance(scalar.value, str))
    return frozenset(match[1] for text in texts for match in _REFERENCE.finditer(text) if match[2] is None)


def find_parameter_defaults(node: Node) -> dict[str, str]:
    """Return the defaults, by name, of those that have the same one wherever the tree refers to them."""
    texts = (scalar.value for scalar in iter_scalars(node) if isinstance(scalar.value, str))
    found: dict[str, set[str | None]] = {}
    for match in (match for text in texts for match in _REFERENCE.finditer(text)):
        found.setdefault(match[1], set()).add(match[2])
    return {
        name: text for name, defaults in found.items() if len(defaults) == 1 for text in defaults if text is not None
    }


def find_unknown_parameters(names: Iterable[str], known: Collection[str]) -> list[Problem]:
    """Return a problem for every name that is none of the known parameters, with similar ones."""
    unknown = [name for name in names if name not in known]
    return [
        Problem(f"parameters.{name}", describe_unknown("parameter", name, known), code="unknown-parameter")
        for name in unknown
    ]


def replace_parameters(node: Node, values: Mapping[str, Value]) -> Node:
    """Return the tree with the values of all parameters; raises PipelineError with the references without a value."""
    if missing := _find_missing(node, values):
        raise PipelineError(missing)
    return _replace(node, {name: write_value(value) for name, value in values.items()})


def write_value(value: Value) -> str:
    """Return the text that stands for a value in a pipeline."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def replace_defaults(node: Node) -> Node:
    """Return the tree with the default of every reference that has one; the others stay open."""
    return _replace(node, {})


def _find_missing(node: Node, values: Mapping[str, Value]) -> list[Problem]:
    missing = (
        (scalar, name)
        for scalar in iter_scalars(node)
        if isinstance(scalar.value, str)
        for name, default in (match.groups() for match in _REFERENCE.finditer(scalar.value))
        if name not in values and default is None
    )
    problems = [
        locate_problem(scalar, "missing-parameter", f"the parameter ${{{truncate_name(name)}}} has no value")
        for scalar, name in islice(missing, MAX_PROBLEMS)
    ]
    if first := next(missing, None):
        more = 1 + sum(1 for _ in missing)
        problems.append(locate_problem(first[0], "missing-parameter", f"{more:,} more parameters have no value"))
    return problems


def _replace(node: Node, values: Mapping[str, str]) -> Node:
    if isinstance(node, SequenceNode):
        return SequenceNode(tuple(_replace(item, values) for item in node.items), node.line, node.column)
    if isinstance(node, MappingNode):
        return MappingNode(tuple((key, _replace(child, values)) for key, child in node.entries), node.line, node.column)
    if not isinstance(node.value, str):
        return node
    text = _REFERENCE.sub(lambda match: values.get(match[1], match[0] if match[2] is None else match[2]), node.value)
    if _REFERENCE.match(node.value):
        text = ParameterText(text)
    return ScalarNode(text, node.line, node.column)


def parse_column_reference(text: str) -> str | None:
    """Return the column of `$name`, `$"a name"` or `$a name`; null for other texts, for example a JSON path."""
    if not text.startswith("$") or text.startswith(("${", "$.", "$[")) or len(text) == 1:
        return None
    quoted = re.fullmatch(r'\$"(.*)"', text, re.DOTALL)
    return quoted[1] if quoted else text[1:]
