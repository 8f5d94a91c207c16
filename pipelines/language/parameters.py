"""`${NAME}`: parameters put into the node tree, so that a value is never read as YAML again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice

from pipelines.errors import MAX_PROBLEMS, PipelineError, Problem
from pipelines.language.names import truncate_name
from pipelines.language.nodes import MappingNode, Node, ScalarNode, SequenceNode, iter_scalars, locate_problem

Value = str | int | float | bool

_REFERENCE = re.compile(r"\$\{([^{}\s]+)\}")


def has_reference(text: str) -> bool:
    """Whether the text holds a `${NAME}`."""
    return _REFERENCE.search(text) is not None


def has_open_parameter(node: Node) -> bool:
    """Whether a parameter below `node` has no value yet."""
    return any(isinstance(scalar.value, str) and has_reference(scalar.value) for scalar in iter_scalars(node))


def find_parameters(node: Node) -> frozenset[str]:
    """The parameters that the tree refers to."""
    texts = (scalar.value for scalar in iter_scalars(node) if isinstance(scalar.value, str))
    return frozenset(name for text in texts for name in _REFERENCE.findall(text))


def replace_parameters(node: Node, values: Mapping[str, Value]) -> Node:
    """The tree with each `${NAME}` replaced; raises PipelineError that lists the first names without a value."""
    if missing := _missing(node, values):
        raise PipelineError(missing)
    return _replace(node, {name: _text(value) for name, value in values.items()})


def _missing(node: Node, values: Mapping[str, Value]) -> list[Problem]:
    missing = (
        (scalar, name)
        for scalar in iter_scalars(node)
        if isinstance(scalar.value, str)
        for name in _REFERENCE.findall(scalar.value)
        if name not in values
    )
    told = [
        locate_problem(scalar, f"the parameter ${{{truncate_name(name)}}} has no value")
        for scalar, name in islice(missing, MAX_PROBLEMS)
    ]
    if first := next(missing, None):
        more = 1 + sum(1 for _ in missing)
        told.append(locate_problem(first[0], f"from here on {more:,} more have no value"))
    return told


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _replace(node: Node, values: Mapping[str, str]) -> Node:
    if isinstance(node, SequenceNode):
        return SequenceNode(tuple(_replace(item, values) for item in node.items), node.line, node.column)
    if isinstance(node, MappingNode):
        return MappingNode(tuple((key, _replace(child, values)) for key, child in node.entries), node.line, node.column)
    if not isinstance(node.value, str):
        return node
    text = _REFERENCE.sub(lambda match: values[match[1]], node.value)
    return ScalarNode(text, node.line, node.column)


def parse_column_reference(text: str) -> str | None:
    """The column that `$name`, `$"a name"` or `$a name` refers to; None for anything else, as a JSON path."""
    if not text.startswith("$") or text.startswith(("${", "$.", "$[")) or len(text) == 1:
        return None
    quoted = re.fullmatch(r'\$"(.*)"', text, re.DOTALL)
    return quoted[1] if quoted else text[1:]
