"""The tables of `information_schema`, as queries over the names that the caller may read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from core.data.sql.catalog import Table
from core.errors import BadInput

INFORMATION_SCHEMA = "information_schema"
MAX_ROWS = 10_000
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "tables": ("table_catalog", "table_schema", "table_name", "table_type"),
    "columns": (
        *("table_catalog", "table_schema", "table_name", "column_name"),
        *("ordinal_position", "column_default", "is_nullable", "data_type"),
    ),
}
TYPES = {"ordinal_position": "BIGINT"}  # of columns that are not text


def build_view(name: str, catalog: str, tables: Sequence[Table]) -> exp.Select:
    """Return the query of `tables` or `columns`. Raises BadInput when it would have too many rows."""
    rows: list[tuple[str | None, ...]] = []
    for table in tables:
        if name == "tables":
            rows.append((catalog, table.schema, table.name, "BASE TABLE"))
            continue
        for position, column in enumerate(table.get_trino_columns(), 1):
            own = (column.name, str(position), None, "YES", column.type)
            rows.append((catalog, table.schema, table.name, *own))
    if len(rows) > MAX_ROWS:
        sentence = f"information_schema.{name} has more than {MAX_ROWS:,} rows here. List the names with "
        raise BadInput(f"{sentence}SHOW TABLES FROM a schema, or DESCRIBE a table.", code="too-large")
    return _select(COLUMNS[name], rows)


def _select(columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> exp.Select:
    """Return a query with these rows of texts, typed."""
    cells = [
        exp.alias_(exp.cast(exp.column(each), TYPES.get(each, "VARCHAR"), dialect="trino"), each) for each in columns
    ]
    found = rows or [[None] * len(columns)]
    tuples = [exp.Tuple(expressions=[_write(value) for value in row]) for row in found]
    names = exp.TableAlias(this=exp.to_identifier("names"), columns=[exp.to_identifier(each) for each in columns])
    query = exp.select(*cells).from_(exp.Values(expressions=tuples, alias=names))
    return query if rows else query.where(exp.false())


def _write(value: str | None) -> exp.Expr:
    return exp.Null() if value is None else exp.Literal.string(value)
