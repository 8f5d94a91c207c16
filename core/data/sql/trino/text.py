"""The text of a query for Trino: the user's own, with Trino's names of the tables in place of the written ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from core.data.sql.engine import Relation
from pipelines.sql.column_names import UNNAMED
from pipelines.sql.gate import find_references
from pipelines.sql.names import TableName
from pipelines.sql.statement import Select, find_bounds, tokenize, write


@dataclass(frozen=True, slots=True)
class Edit:
    """New text for the characters from `start` to before `end`."""

    start: int
    end: int
    text: str


def write_page(
    query: Select, relations: Mapping[TableName, Relation | exp.Select], limit: int | None, offset: int
) -> str:
    """Return the query over Trino's tables or other queries, with at most `limit` rows; None means all."""
    edits = [*_name_tables(query.tree, relations), *_unqualify_columns(query.tree, relations)]
    bounds = find_bounds(query.tree)
    if bounds is None:
        names = f"({_name_values(query.tree)})" if isinstance(query.tree, exp.Values) else ""
        text = _apply(query.text, edits).strip()
        return f'SELECT * FROM (\n{text}\n) AS "page"{names}\n{_write_bounds(limit, offset)}'  # noqa: S608
    # one LIMIT keeps the order of the query's ORDER BY, which a subquery need not
    text = _apply(query.text[: _find_bounds_start(query)], edits).strip()
    return f"{text}\n{_write_bounds(*bounds.cut(limit, offset))}"


def _name_tables(tree: exp.Expr, relations: Mapping[TableName, Relation | exp.Select]) -> Iterator[Edit]:
    """Yield the edits that name the tables; an alias keeps the written name for the columns."""
    for node, name in find_references(tree):
        relation = relations[name]
        if isinstance(relation, Relation):
            text = ".".join(_quote(part) for part in relation.identifiers)
        else:
            text = f"({write(relation, 'trino')})"
        alias = "" if node.alias else f" AS {_quote(name.name)}"
        first = node.args.get("catalog") or node.args.get("db") or node.this
        yield Edit(first.meta["start"], node.this.meta["end"] + 1, text + alias)


def _unqualify_columns(tree: exp.Expr, names: Mapping[TableName, object]) -> Iterator[Edit]:
    """Yield the edits that turn `schema.table.column` into `table.column` for tables that are named with a schema."""
    qualified = {(name.schema, name.name) for name in names if name.schema}
    for column in tree.find_all(exp.Column):
        if column.db and (column.db.lower(), column.table.lower()) in qualified:
            first = column.args.get("catalog") or column.args["db"]
            yield Edit(first.meta["start"], column.args["table"].meta["start"], "")


def _apply(text: str, edits: Sequence[Edit]) -> str:
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        if edit.start < len(text):
            text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _find_bounds_start(query: Select) -> int:
    """Return where OFFSET, LIMIT or FETCH begin at the end of a query, or else its end."""
    limit = query.tree.args.get("limit")
    words = {"FETCH" if isinstance(limit, exp.Fetch) else "LIMIT"} if limit is not None else set[str]()
    if query.tree.args.get("offset") is not None:
        words.add("OFFSET")
    starts = {token.text.upper(): token.start for token in tokenize(query.text)}  # the last one of each word
    return min((starts[word] for word in words), default=len(query.text))


def _write_bounds(limit: int | None, offset: int) -> str:
    return f"OFFSET {offset}" + ("" if limit is None else f" LIMIT {limit}")


def _name_values(values: exp.Values) -> str:
    return ", ".join(f'"{UNNAMED}{position}"' for position in range(len(values.expressions[0].expressions)))


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
