"""`${NAME}`: parameters put into the node tree, so that a value is never read as YAML again."""

from __future__ import annotations

import re
from collections.abc import Mapping as MappingOf
from itertools import islice

from pipelines.errors import MAX_PROBLEMS, PipelineError, Problem
from pipelines.language.names import shown
from pipelines.language.nodes import Mapping, Node, Scalar, Sequence, problem, scalars

Value = str | int | float | bool

_REFERENCE = re.compile(r"\$\{([^{}\s]+)\}")


def has_reference(text: str) -> bool:
    """Whether the text holds a `${NAME}`."""
    return _REFERENCE.search(text) is not None


def is_symbolic(node: Node) -> bool:
    """Whether a parameter below `node` has no value yet."""
    return any(isinstance(scalar.value, str) and has_reference(scalar.value) for scalar in scalars(node))


def names(node: Node) -> frozenset[str]:
    """The parameters that the tree refers to."""
    texts = (scalar.value for scalar in scalars(node) if isinstance(scalar.value, str))
    return frozenset(name for text in texts for name in _REFERENCE.findall(text))


def substitute(node: Node, values: MappingOf[str, Value]) -> Node:
    """The tree with each `${NAME}` replaced; raises PipelineError that lists the first names without a value."""
    if missing := _missing(node, values):
        raise PipelineError(missing)
    return _replace(node, {name: _text(value) for name, value in values.items()})


def _missing(node: Node, values: MappingOf[str, Value]) -> list[Problem]:
    missing = (
        (scalar, name)
        for scalar in scalars(node)
        if isinstance(scalar.value, str)
        for name in _REFERENCE.findall(scalar.value)
        if name not in values
    )
    told = [
        problem(scalar, f"the parameter ${{{shown(name)}}} has no value")
        for scalar, name in islice(missing, MAX_PROBLEMS)
    ]
    if first := next(missing, None):
        more = 1 + sum(1 for _ in missing)
        told.append(problem(first[0], f"from here on {more:,} more have no value"))
    return told


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _replace(node: Node, values: MappingOf[str, str]) -> Node:
    if isinstance(node, Sequence):
        return Sequence(tuple(_replace(item, values) for item in node.items), node.line, node.column)
    if isinstance(node, Mapping):
        return Mapping(tuple((key, _replace(child, values)) for key, child in node.entries), node.line, node.column)
    if not isinstance(node.value, str):
        return node
    text = _REFERENCE.sub(lambda match: values[match[1]], node.value)
    return Scalar(text, node.line, node.column)


def column_reference(text: str) -> str | None:
    """The column that `$name`, `$"a name"` or `$a name` refers to; None for anything else, as a JSON path."""
    if not text.startswith("$") or text.startswith(("${", "$.", "$[")) or len(text) == 1:
        return None
    quoted = re.fullmatch(r'\$"(.*)"', text, re.DOTALL)
    return quoted[1] if quoted else text[1:]
