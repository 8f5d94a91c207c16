"""A checked statement of Trino's as DuckDB runs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp
from sqlglot.parsers.trino import TrinoParser

from pipelines.errors import SqlError
from pipelines.sql.binding import Binder
from pipelines.sql.column_names import UNNAMED, UNPLACED
from pipelines.sql.comparisons import rewrite_comparisons
from pipelines.sql.floats import TYPE
from pipelines.sql.names import TableName
from pipelines.sql.nested import get_type
from pipelines.sql.scopes import Output
from pipelines.sql.statement import TRINO, list_value_columns, write
from pipelines.sql.syntax import check_syntax, refuse
from pipelines.sql.translation import translate
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
PART = re.compile("%(.)", re.DOTALL)
KNOWN = "abcdefHhIijklMmprSsTvWxYy%"
UNSUPPORTED = "DUuVwX"  # by Trino


def write_duckdb(
    tree: exp.Expr,
    outputs: Mapping[TableName, Output | None],
    place: Callable[[exp.Expr], exp.Expr] = lambda tree: tree,
) -> str:
    """Return the text of a checked tree, which changes, over tables with these columns; raise SqlError.

    `place` puts the engine's relations in the place of the tables.
    """
    check_syntax(tree)
    binder = Binder(tree, outputs)
    rewrite_comparisons(tree, binder.find_type)
    placed = place(build_calls(tree))
    name_columns(placed)
    translate(placed)
    return write(placed, "duckdb")


def name_columns(tree: exp.Expr) -> None:
    """Name the unnamed columns of all queries in the tree as Trino does: `_col0`, `_col1`, …

    The positions of columns after a `*` are not known here: their names begin with UNPLACED until the query has run.
    """
    for select in list(tree.find_all(exp.Select)):
        name = UNNAMED
        for position, column in enumerate(select.expressions):
            if column.is_star:
                name = UNPLACED
            elif not _has_name(column):
                column.replace(exp.alias_(column.copy(), f"{name}{position}", quoted=True))
    for values in list(tree.find_all(exp.Values)):
        alias = values.args.get("alias") or exp.TableAlias(this=exp.to_identifier("values"))
        if isinstance(values.parent, exp.From | exp.Join) and not alias.columns:
            alias.set("columns", list_value_columns(values))
            values.set("alias", alias)


def _has_name(column: exp.Expr) -> bool:
    """Whether Trino names the column: after its alias, the column or the field that it is."""
    bare = column.unnest()
    if isinstance(bare, exp.Dot):
        return isinstance(bare.this, exp.Column | exp.Identifier | exp.Dot)
    named = bool(column.alias) and not isinstance(column, exp.Window)  # whose alias is that of its window
    return named or isinstance(bare, exp.Column | exp.Aliases)


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


def check_format(node: exp.Anonymous) -> None:
    """Rewrite the format of a call for sqlglot. Raises SqlError for parts that Trino or DuckDB does not have."""
    name, format_ = node.name.lower(), node.expressions[-1]
    if not isinstance(format_, exp.Literal):
        raise refuse(f"{name} with a format that is not a text")
    for part in PART.findall(format_.name):
        if part in UNSUPPORTED:
            raise SqlError(f"%{part} not supported in date format string.", code="INVALID_FUNCTION_ARGUMENT")
        if part in "vx" and name == "date_parse":
            raise refuse(f"date_parse with %{part}")
    format_.replace(exp.Literal.string(PART.sub(_write, format_.name)))


def _write(match: re.Match[str]) -> str:
    part = match[1]
    return "%V" if part == "v" else match[0] if part in KNOWN else part
