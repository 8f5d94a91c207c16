"""A checked statement of Trino's as DuckDB runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from pipelines.sql.binding import Binder
from pipelines.sql.calls import build_calls
from pipelines.sql.column_names import UNNAMED, UNPLACED
from pipelines.sql.comparisons import rewrite_comparisons
from pipelines.sql.names import TableName
from pipelines.sql.scopes import Output
from pipelines.sql.statement import list_value_columns, write
from pipelines.sql.syntax import check_syntax
from pipelines.sql.translation import translate


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
