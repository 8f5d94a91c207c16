"""Writing of a query's rows to a Parquet file. Runs in query processes."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from pipelines.duckdb.storable_rows import select_storable
from pipelines.duckdb.views import quote_identifier, quote_literal
from pipelines.sql.column_names import make_unique

PLAN_COLUMN = "Query Plan"


def write_parquet(connection: duckdb.DuckDBPyConnection, sql: str, path: str) -> tuple[list[tuple[str, str]], int]:
    """Write the rows of a query, in their order, to a file; return its columns with DuckDB's types, and the rows."""
    described, storable = select_storable(connection, sql)
    copy = f"COPY ({storable}) TO {quote_literal(path)} (FORMAT parquet)"
    (count,) = connection.execute(copy).fetchone() or (0,)
    names = make_unique([name for name, _ in described])
    return [(name, type) for name, (_, type) in zip(names, described, strict=True)], count


def quote_lines(lines: Sequence[str], name: str) -> str:
    """Return a query whose rows are these texts."""
    values = ", ".join(f"({quote_literal(line)})" for line in lines)
    return f"SELECT * FROM (VALUES {values}) AS lines({quote_identifier(name)})"  # noqa: S608 - quoted


def read_plan(connection: duckdb.DuckDBPyConnection, sql: str) -> list[str]:
    """Return the lines of a query's plan."""
    rows = connection.execute(f"EXPLAIN {sql}").fetchall()
    return [line.rstrip() for *_, plan in rows for line in str(plan).splitlines()]
