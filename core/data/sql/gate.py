"""The SQL gate: refuses forbidden syntax, and rewrites queries over the organization's tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from sqlglot import exp

from core.data.sql.engine import Relation
from core.data.sql.names import TableName, suggest
from core.data.sql.statement import list_value_columns
from core.errors import BadInput

REFUSED: dict[type[exp.Expr], str] = {
    exp.Insert: "A query cannot write.",
    exp.Update: "A query cannot write.",
    exp.Delete: "A query cannot write.",
    exp.Merge: "A query cannot write.",
    exp.Create: "A query cannot write.",
    exp.Drop: "A query cannot write.",
    exp.Command: "A query cannot contain a command.",
    exp.Into: "SELECT … INTO would write; only reading is allowed.",
    exp.Lock: "FOR UPDATE and FOR SHARE are not available.",
    exp.Placeholder: "Parameters (?) are not available; write the value itself.",
    exp.Parameter: "Parameters (@ or $) are not available; write the value itself.",
    exp.CurrentCatalog: "Session settings cannot be read.",
    exp.CurrentSchema: "Session settings cannot be read.",
    exp.CurrentVersion: "Session settings cannot be read.",
    exp.CurrentUser: "Session settings cannot be read.",
    exp.SessionParameter: "Session settings cannot be read.",
    exp.Version: "Earlier versions of a table cannot be queried.",
}


# columns that Trino adds to tables; they show the bucket and the organization
HIDDEN_COLUMNS = frozenset({"$path", "$file_size", "$file_modified_time", "$partition", "$bucket", "$row_id"})


def find_table_names(tree: exp.Expr) -> list[TableName]:
    """Return the tables that the query names, without common table expressions."""
    return [name for _, name in _find_references(tree)]


def check_tree(tree: exp.Expr, functions: Set[str]) -> None:
    """Raise BadInput for syntax that queries may not contain, and for functions that the engine does not allow."""
    for node in tree.walk():
        for kind, sentence in REFUSED.items():
            if isinstance(node, kind):
                raise BadInput(sentence, code="query-refused")
        if isinstance(node, exp.Identifier) and node.name.lower() in HIDDEN_COLUMNS:
            raise BadInput(f"There is no column {node.name}.", code="COLUMN_NOT_FOUND")
        if isinstance(node, exp.Anonymous) and node.name.lower() not in functions:
            sentence = f"There is no function {node.name}{suggest(node.name, functions)}."
            raise BadInput(sentence, code="unknown-function")


def rewrite(
    tree: exp.Expr, relations: Mapping[TableName, Relation | exp.Select], limit: int | None, offset: int
) -> exp.Expr:
    """Return a checked query over an engine's relations or other queries, with at most `limit` rows; None means all."""
    references = list(_find_references(tree))
    for node, name in references:
        relation = relations[name]
        if isinstance(relation, Relation):
            _point_to_relation(node, name, relation)
        else:
            alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name.name, quoted=True))
            node.replace(exp.Subquery(this=relation.copy(), alias=alias, joins=node.args.get("joins")))
    _unqualify_columns(tree, {(name.schema, name.name) for _, name in references if name.schema})
    return _limit_rows(tree, limit, offset)


def _find_references(tree: exp.Expr) -> Iterator[tuple[exp.Table, TableName]]:
    for node in tree.find_all(exp.Table):
        if not isinstance(node.this, exp.Identifier):
            sentence = "Only tables can be read FROM: functions and longer names are not available there."
            raise BadInput(sentence, code="query-refused")
        name = TableName(node.name.lower(), node.db.lower() or None, node.catalog.lower() or None)
        if name.schema is not None or name.name not in _find_visible_ctes(node):
            yield node, name


def _find_visible_ctes(node: exp.Expr) -> set[str]:
    """Return the names of the common table expressions of the queries around a node."""
    names: set[str] = set()
    inside: exp.Expr = node
    while (parent := inside.parent) is not None:
        with_ = parent if isinstance(parent, exp.With) else parent.args.get("with_")
        if isinstance(with_, exp.With) and inside is not with_:
            names.update(_list_ctes(with_, inside))
        inside = parent
    return names


def _list_ctes(with_: exp.With, inside: exp.Expr) -> Iterator[str]:
    """Yield the names of a WITH; inside one of its expressions the earlier ones, and its own if recursive."""
    for cte in with_.expressions:
        if cte is inside and not with_.args.get("recursive"):
            return
        yield cte.alias_or_name.lower()
        if cte is inside:
            return


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
    if isinstance(tree, exp.Select | exp.SetOperation):
        own_limit, own_offset = _get_number(tree, "limit"), _get_number(tree, "offset")
        if own_offset is not None and (own_limit is not None or tree.args.get("limit") is None):
            # one LIMIT keeps the order of the query's ORDER BY, which a subquery need not
            rest = None if own_limit is None else max(own_limit - offset, 0)
            bounds = [bound for bound in (rest, limit) if bound is not None]
            tree = tree.limit(min(bounds)) if bounds else tree
            return tree.offset(own_offset + offset)
    inner = tree.unnest() if isinstance(tree, exp.Subquery) else tree
    columns = list_value_columns(inner) if isinstance(inner, exp.Values) else None
    page = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("page"), columns=columns))
    query = exp.select("*").from_(page)
    return (query if limit is None else query.limit(limit)).offset(offset)


def _get_number(tree: exp.Expr, clause: str) -> int | None:
    """Return the number of a LIMIT or OFFSET. Without the clause it is None or 0; None for another expression."""
    node = tree.args.get(clause)
    if node is None:
        return 0 if clause == "offset" else None
    value = node.args.get("count") if isinstance(node, exp.Fetch) else node.expression
    plain = not (isinstance(node, exp.Fetch) and node.args.get("limit_options"))
    if not plain:
        return None
    return int(value.name) if isinstance(value, exp.Literal) and value.name.isdecimal() else None
