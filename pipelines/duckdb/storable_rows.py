"""The rows of a query in types that Parquet and Arrow share with Trino. Runs in query processes."""

from __future__ import annotations

import duckdb

from pipelines.duckdb.views import quote_identifier
from pipelines.sql.column_names import make_unique, number_unnamed

WIDE_INTEGERS = ("HUGEINT", "UHUGEINT", "UBIGINT")  # of sums; Trino's are bigint
UNKNOWN_TO_PARQUET = ("INTERVAL", "UUID", "JSON", "BIT", "TIME WITH TIME ZONE", '"NULL"')


def select_storable(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[list[tuple[str, str]], str]:
    """Return the columns of a query with DuckDB's types, and the query that gives its rows in types to store."""
    described = connection.execute(f"DESCRIBE {sql}").fetchall()
    names = number_unnamed([name for name, *_ in described])
    types = [type for _, type, *_ in described]
    aliases = ", ".join(quote_identifier(f"c{position}") for position in range(len(names)))
    cells = ", ".join(
        f"{_cast(quote_identifier(f'c{position}'), type)} AS {quote_identifier(name)}"
        for position, (name, type) in enumerate(zip(make_unique(names), types, strict=True))
    )
    # the rows of a subquery keep their order
    return list(zip(names, types, strict=True)), f"SELECT {cells} FROM ({sql}) AS page({aliases})"  # noqa: S608 - quoted


def _cast(column: str, type: str) -> str:
    if type in WIDE_INTEGERS:
        return f"CAST({column} AS BIGINT)"
    if type in UNKNOWN_TO_PARQUET:
        return f"CAST({column} AS VARCHAR)"
    return column
