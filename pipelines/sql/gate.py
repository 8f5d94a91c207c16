"""The SQL gate: refuses forbidden syntax, and rewrites queries over the organization's tables."""

from __future__ import annotations

from collections.abc import Iterator, Set
from pathlib import Path

from sqlglot import exp

from pipelines.errors import SqlError
from pipelines.sql.names import TableName, suggest

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
TRINO_FUNCTIONS = frozenset(Path(__file__).with_name("functions.txt").read_text("utf-8").split())


def find_table_names(tree: exp.Expr) -> list[TableName]:
    """Return the tables that the query names, without common table expressions."""
    return [name for _, name in find_references(tree)]


def check_tree(tree: exp.Expr, functions: Set[str]) -> None:
    """Raise SqlError for syntax that queries may not contain, and for functions that the engine does not allow."""
    for node in tree.walk():
        for kind, sentence in REFUSED.items():
            if isinstance(node, kind):
                raise SqlError(sentence, code="query-refused")
        if isinstance(node, exp.Identifier) and node.name.lower() in HIDDEN_COLUMNS:
            raise SqlError(f"There is no column {node.name}.", code="COLUMN_NOT_FOUND")
        if isinstance(node, exp.Anonymous) and node.name.lower() not in functions:
            sentence = f"There is no function {node.name}{suggest(node.name, functions)}."
            raise SqlError(sentence, code="unknown-function")


def find_references(tree: exp.Expr) -> Iterator[tuple[exp.Table, TableName]]:
    """Yield the tables that the query names, and their nodes; without common table expressions."""
    for node in tree.find_all(exp.Table):
        if not isinstance(node.this, exp.Identifier):
            sentence = "Only tables can be read FROM: functions and longer names are not available there."
            raise SqlError(sentence, code="query-refused")
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
