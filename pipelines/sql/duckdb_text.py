"""A checked statement of Trino's as DuckDB runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from pipelines.sql.binding import Binder
from pipelines.sql.calls import build_calls
from pipelines.sql.comparisons import rewrite_comparisons
from pipelines.sql.names import TableName
from pipelines.sql.scopes import Output
from pipelines.sql.statement import write
from pipelines.sql.syntax import check_syntax
from pipelines.sql.translation import translate
from pipelines.sql.unnamed_columns import name_columns


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
