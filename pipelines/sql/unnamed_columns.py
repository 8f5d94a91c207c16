"""Names for the unnamed columns of a statement, as Trino gives them."""

from __future__ import annotations

from sqlglot import exp

from pipelines.sql.column_names import UNNAMED, UNPLACED
from pipelines.sql.statement import list_value_columns


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
