"""`spindle query`: the rows of a SQL query as a table or JSON."""

from __future__ import annotations

import json
from typing import Any

from cli.client import Client, Connection, connect
from cli.terminal import format_count, print_table

FIRST_ROWS = 5
MAX_CELL_LENGTH = 80


def query(connection: Connection, sql: str, limit: int | None, as_json: bool) -> int:
    with connect(connection) as client:
        rows = _fetch_rows(client, sql, limit)
    if as_json:
        print(json.dumps(rows, ensure_ascii=False, indent=1))
        return 0
    _print_rows(rows)
    print(format_count(len(rows), "rows"))
    return 0


def show_output(client: Client, execution: str) -> None:
    """Print the name of the table that the execution at this path wrote, and its first rows."""
    dataset_id = client.get(execution)["datasetId"]
    dataset = client.get(f"/datasets/{dataset_id}") if dataset_id else None
    if dataset is None or not dataset["indexed"]:
        return
    schema, name = dataset["schema"], dataset["tableName"]
    rows = _fetch_rows(client, f'SELECT * FROM "{schema}"."{name}"', FIRST_ROWS)  # noqa: S608
    print(f"Table {schema}.{name}" + (", first rows:" if rows else ", without rows"))
    _print_rows(rows)


def _fetch_rows(client: Client, sql: str, limit: int | None) -> list[dict[str, Any]]:
    return client.post("/datasets/query", {"sql": sql, "limit": limit})["results"]


def _print_rows(rows: list[dict[str, Any]]) -> None:
    if rows:
        print_table(list(rows[0]), [[format_cell(value) for value in row.values()] for row in rows])


def format_cell(value: Any) -> str:
    """Return a value on one line, nothing for null, and the beginning of a long one."""
    if value is None:
        return ""
    text = " ".join((value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split())
    return text if len(text) <= MAX_CELL_LENGTH else f"{text[: MAX_CELL_LENGTH - 1]}…"
