"""Calls of functions, which the parser leaves as they are written, as the nodes that the translation knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp
from sqlglot.parsers.trino import TrinoParser

from pipelines.sql.floats import TYPE
from pipelines.sql.nested import get_type
from pipelines.sql.statement import TRINO
from pipelines.sql.time_formats import check_format
from pipelines.sql.types import WHOLE

BUILDERS: Mapping[str, Callable[[list[exp.Expr]], exp.Expr]] = {  # of functions that have parsers of their own
    "ceil": exp.Ceil.from_arg_list,
    "ceiling": exp.Ceil.from_arg_list,
    "chr": lambda arguments: exp.Chr(expressions=arguments),
    "floor": exp.Floor.from_arg_list,
    "max_by": exp.ArgMax.from_arg_list,
    "min_by": exp.ArgMin.from_arg_list,
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = TrinoParser.FUNCTIONS


FORMATTED = ("date_format", "date_parse")
OF_ARRAYS: Mapping[str, str] = {"reverse": "list_reverse"}  # names of functions that give an array
OF_WHOLE_NUMBERS: Mapping[str, str] = dict.fromkeys(
    ("ceil", "ceiling", "floor"), "round"
)  # the others go through doubles


def build_calls(tree: exp.Expr) -> exp.Expr:
    """Replace calls by the nodes of sqlglot, as its parser of Trino's dialect does. Return the tree.

    The new nodes have the types of the calls.
    """
    for node in reversed(list(tree.find_all(exp.Anonymous))):
        name, type = node.name.lower(), get_type(node)
        if type is not None and (type.name == "array" or type.name in WHOLE):
            renamed = OF_ARRAYS if type.name == "array" else OF_WHOLE_NUMBERS
            node.set("this", renamed.get(name, node.this))
        if name in FORMATTED:
            check_format(node)
        built = _build(node.name.lower(), node.expressions)
        if built is not None:
            if type is not None:
                built.meta[TYPE] = type
            if node is tree:
                return built
            node.replace(built)
    return tree


def _build(name: str, arguments: list[exp.Expr]) -> exp.Expr | None:
    builder: Callable[..., exp.Expr] | None = BUILDERS.get(name) or FUNCTIONS.get(name.upper())
    if builder is None:
        return None
    try:
        return builder(arguments)
    except TypeError:  # the builders of some depend on the dialect
        return builder(arguments, dialect=TRINO)
