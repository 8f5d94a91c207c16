"""A checked query over DuckDB's views of the tables that it names, and one page of its rows."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from core.data.sql.engine import Relation
from pipelines.sql.gate import find_references
from pipelines.sql.names import TableName
from pipelines.sql.statement import find_bounds, list_value_columns


def rewrite(
    tree: exp.Expr, relations: Mapping[TableName, Relation | exp.Select], limit: int | None, offset: int
) -> exp.Expr:
    """Return a checked query over an engine's relations or other queries, with at most `limit` rows; None means all."""
    references = list(find_references(tree))
    for node, name in references:
        relation = relations[name]
        if isinstance(relation, Relation):
            _point_to_relation(node, name, relation)
        else:
            alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name.name, quoted=True))
            node.replace(exp.Subquery(this=relation.copy(), alias=alias, joins=node.args.get("joins")))
    _unqualify_columns(tree, {(name.schema, name.name) for _, name in references if name.schema})
    return _limit_rows(tree, limit, offset)


def _point_to_relation(node: exp.Table, name: TableName, relation: Relation) -> None:
    """Replace the table's name; an alias keeps the written one for the columns."""
    if not node.alias:
        alias = exp.TableAlias(this=exp.to_identifier(name.name, quoted=True))
        node.set("alias", alias)
    parts = [exp.to_identifier(part, quoted=True) for part in reversed(relation.identifiers)]
    for key, part in zip(("this", "db", "catalog"), [*parts, None, None], strict=False):
        node.set(key, part)


def _unqualify_columns(tree: exp.Expr, qualified: set[tuple[str | None, str]]) -> None:
    """Turn `schema.table.column` into `table.column` for tables that the query names with their schema."""
    for column in tree.find_all(exp.Column):
        if column.db and (column.db.lower(), column.table.lower()) in qualified:
            column.set("db", None)
            column.set("catalog", None)


def _limit_rows(tree: exp.Expr, limit: int | None, offset: int) -> exp.Expr:
    """Return a query for one page, within the limit that the query sets itself."""
    bounds = find_bounds(tree)
    if bounds is not None and isinstance(tree, exp.Select | exp.SetOperation):
        # one LIMIT keeps the order of the query's ORDER BY, which a subquery need not
        rows, start = bounds.cut(limit, offset)
        tree = tree if rows is None else tree.limit(rows, copy=False)
        return tree.offset(start, copy=False)
    inner = tree.unnest() if isinstance(tree, exp.Subquery) else tree
    columns = list_value_columns(inner) if isinstance(inner, exp.Values) else None
    page = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("page"), columns=columns))
    query = exp.select("*").from_(page, copy=False)
    return (query if limit is None else query.limit(limit, copy=False)).offset(offset, copy=False)
