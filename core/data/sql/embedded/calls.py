"""Calls of functions, which the parser leaves as they are written, as the nodes that the translation knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp
from sqlglot.parsers.trino import TrinoParser

BUILDERS: Mapping[str, Callable[[list[exp.Expr]], exp.Expr]] = {  # of functions that have parsers of their own
    "ceil": exp.Ceil.from_arg_list,
    "ceiling": exp.Ceil.from_arg_list,
    "chr": lambda arguments: exp.Chr(expressions=arguments),
    "floor": exp.Floor.from_arg_list,
    "max_by": exp.ArgMax.from_arg_list,
    "min_by": exp.ArgMin.from_arg_list,
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = TrinoParser.FUNCTIONS


def build_calls(tree: exp.Expr, dialect: Any) -> exp.Expr:
    """Replace calls by the nodes of sqlglot, as its parser of Trino's dialect does. Return the tree."""
    for node in reversed(list(tree.find_all(exp.Anonymous))):
        built = _build(node.name.lower(), node.expressions, dialect)
        if built is not None:
            if node is tree:
                return built
            node.replace(built)
    return tree


def _build(name: str, arguments: list[exp.Expr], dialect: Any) -> exp.Expr | None:
    builder: Callable[..., exp.Expr] | None = BUILDERS.get(name) or FUNCTIONS.get(name.upper())
    if builder is None:
        return None
    try:
        return builder(arguments)
    except TypeError:  # the builders of some depend on the dialect
        return builder(arguments, dialect=dialect)
