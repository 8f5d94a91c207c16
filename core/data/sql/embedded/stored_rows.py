"""Writing of a query's rows to a Parquet file. Runs in query processes."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from pipelines.duckdb.views import quote_identifier, quote_literal
from pipelines.sql.column_names import make_unique, number_unnamed

WIDE_INTEGERS = ("HUGEINT", "UHUGEINT", "UBIGINT")  # of sums; Trino's are bigint
UNKNOWN_TO_PARQUET = ("INTERVAL", "UUID", "JSON", "BIT", "TIME WITH TIME ZONE", '"NULL"')
PLAN_COLUMN = "Query Plan"


def write_parquet(connection: duckdb.DuckDBPyConnection, sql: str, path: str) -> tuple[list[tuple[str, str]], int]:
    """Write the rows of a query, in their order, to a file; return its columns with DuckDB's types, and the rows."""
    described = connection.execute(f"DESCRIBE {sql}").fetchall()
    names = make_unique(number_unnamed([name for name, *_ in described]))
    types = [type for _, type, *_ in described]
    aliases = ", ".join(quote_identifier(f"c{position}") for position in range(len(names)))
    cells = ", ".join(
        f"{_cast(quote_identifier(f'c{position}'), type)} AS {quote_identifier(name)}"
        for position, (name, type) in enumerate(zip(names, types, strict=True))
    )
    # the rows of a subquery keep their order
    copy = f"COPY (SELECT {cells} FROM ({sql}) AS page({aliases})) TO {quote_literal(path)} (FORMAT parquet)"  # noqa: S608 - quoted
    (count,) = connection.execute(copy).fetchone() or (0,)
    return list(zip(names, types, strict=True)), count


def quote_lines(lines: Sequence[str], name: str) -> str:
    """Return a query whose rows are these texts."""
    values = ", ".join(f"({quote_literal(line)})" for line in lines)
    return f"SELECT * FROM (VALUES {values}) AS lines({quote_identifier(name)})"  # noqa: S608 - quoted


def read_plan(connection: duckdb.DuckDBPyConnection, sql: str) -> list[str]:
    """Return the lines of a query's plan."""
    rows = connection.execute(f"EXPLAIN {sql}").fetchall()
    return [line.rstrip() for *_, plan in rows for line in str(plan).splitlines()]


def _cast(column: str, type: str) -> str:
    if type in WIDE_INTEGERS:
        return f"CAST({column} AS BIGINT)"
    if type in UNKNOWN_TO_PARQUET:
        return f"CAST({column} AS VARCHAR)"
    return column
