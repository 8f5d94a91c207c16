"""Rewrites a query onto the views of the query process; every table it names is one of the organization's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from core.errors import BadInput
from core.sql.catalog import Table
from core.sql.functions import ALLOWED
from core.sql.names import TableName, near

Resolve = Callable[[TableName], Table]

REFUSED: dict[type[exp.Expr], str] = {
    exp.Insert: "A query cannot write.",
    exp.Update: "A query cannot write.",
    exp.Delete: "A query cannot write.",
    exp.Merge: "A query cannot write.",
    exp.Create: "A query cannot write.",
    exp.Drop: "A query cannot write.",
    exp.Command: "A query cannot hold a command.",
    exp.Into: "SELECT … INTO would write; only reading is allowed.",
    exp.Lock: "FOR UPDATE and FOR SHARE are not available.",
    exp.Placeholder: "Parameters (?) are not available; write the value itself.",
    exp.Parameter: "Parameters (@ or $) are not available; write the value itself.",
    exp.CurrentCatalog: "Session settings cannot be read.",
    exp.SessionParameter: "Session settings cannot be read.",
    exp.Version: "Earlier versions of a table cannot be queried.",
}


@dataclass(frozen=True, slots=True)
class Rewritten:
    """DuckDB's SQL over views, and the tables behind them."""

    sql: str
    tables: tuple[Table, ...]


def table_names(tree: exp.Expr) -> list[TableName]:
    """The tables that the query names, common table expressions left out."""
    return [name for _, name in _references(tree)]


def rewrite(tree: exp.Expr, resolve: Resolve, limit: int, offset: int) -> Rewritten:
    """`tree` in DuckDB's dialect with each table replaced by its view and at most `limit` rows.

    Raises:
        BadInput: the query holds something that is refused or that DuckDB has no equivalent for.
    """
    _refuse(tree)
    resolved = [(node, name, resolve(name)) for node, name in list(_references(tree))]
    for node, name, table in resolved:
        _point_to_view(node, name, table)
    _unqualify_columns(tree, {(name.schema, name.name) for _, name, _ in resolved if name.schema})
    try:
        sql = _page(tree, limit, offset).sql("duckdb", unsupported_level=ErrorLevel.RAISE)
    except (SqlglotError, RecursionError) as error:
        raise BadInput(f"The query uses something that this engine does not have: {_reason(error)}.") from None
    return Rewritten(sql, tuple({table.dataset_id: table for _, _, table in resolved}.values()))


def _refuse(tree: exp.Expr) -> None:
    for node in tree.walk():
        for kind, sentence in REFUSED.items():
            if isinstance(node, kind):
                raise BadInput(sentence)
        if isinstance(node, exp.Anonymous) and node.name.lower() not in ALLOWED:
            raise BadInput(f"There is no function {node.name}{near(node.name, ALLOWED)}.")


def _references(tree: exp.Expr) -> Iterator[tuple[exp.Table, TableName]]:
    for node in tree.find_all(exp.Table):
        if not isinstance(node.this, exp.Identifier):
            raise BadInput("Only tables can be read FROM: functions and longer names are not available there.")
        name = TableName(node.name.lower(), node.db.lower() or None, node.catalog.lower() or None)
        if name.schema is not None or name.name not in _visible_ctes(node):
            yield node, name


def _visible_ctes(node: exp.Expr) -> set[str]:
    """Names of the common table expressions that `node` can see: those of the queries around it."""
    names: set[str] = set()
    inside: exp.Expr = node
    while (parent := inside.parent) is not None:
        with_ = parent if isinstance(parent, exp.With) else parent.args.get("with_")
        if isinstance(with_, exp.With) and inside is not with_:
            names.update(_earlier(with_, inside))
        inside = parent
    return names


def _earlier(with_: exp.With, inside: exp.Expr) -> Iterator[str]:
    """All names of `with_`; from within one of its own expressions, those before it (and itself when recursive)."""
    for cte in with_.expressions:
        if cte is inside and not with_.args.get("recursive"):
            return
        yield cte.alias_or_name.lower()
        if cte is inside:
            return


def _point_to_view(node: exp.Table, name: TableName, table: Table) -> None:
    if not node.alias:
        alias = exp.TableAlias(this=exp.to_identifier(name.name, quoted=True))
        node.set("alias", alias)
    node.set("this", exp.to_identifier(table.view, quoted=True))
    node.set("db", None)
    node.set("catalog", None)


def _unqualify_columns(tree: exp.Expr, qualified: set[tuple[str | None, str]]) -> None:
    """`schema.table.column` → `table.column` where that table stands in the query under its own name."""
    for column in tree.find_all(exp.Column):
        if column.db and (column.db.lower(), column.table.lower()) in qualified:
            column.set("db", None)
            column.set("catalog", None)


def _page(tree: exp.Expr, limit: int, offset: int) -> exp.Expr:
    """The rows `offset` to `offset + limit`, inside whatever limit the query sets itself."""
    if isinstance(tree, exp.Select | exp.SetOperation) and not (tree.args.get("limit") or tree.args.get("offset")):
        return tree.limit(limit).offset(offset)
    inner = tree.unnest() if isinstance(tree, exp.Subquery) else tree
    page = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("page")))
    return exp.select("*").from_(page).limit(limit).offset(offset)


def _reason(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0].rstrip(".")
