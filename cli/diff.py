"""`spindle diff`: what changed between two versions of a job's table."""

from __future__ import annotations

import time
from typing import Any

from cli.client import Client, ClientError, Connection, connect
from cli.query import format_cell
from cli.restore import find_output
from cli.terminal import escape_text, format_count, print_table

POLL_SECONDS = 0.2
Json = dict[str, Any]


def diff(connection: Connection, job: str, versions: tuple[int, int] | None, keys: str | None, limit: int) -> int:
    """Print the columns and the first rows that differ, by default between the last two versions."""
    with connect(connection) as client:
        dataset = find_output(client, job)
        before, after = versions or _find_last_versions(client, dataset, job)
        named = {"keys": keys} if keys else {}
        found = client.get(f"/datasets/{dataset}/versions/{before}/diff/{after}", **named)
        rows = _fetch_rows(client, found["queryId"], limit) if limit and any(found["counts"].values()) else []
    print(f"{job}: version {found['before']} → {found['after']}, by {escape_text(', '.join(found['keys']))}")
    for column in found["columns"]:
        print(f"column {escape_text(_describe_column(column))}")
    if rows:
        headings = ["Change", *found["keys"], "Values"]
        print_table(headings, [_list_cells(row, found["keys"]) for row in rows])
    counts = found["counts"]
    if (hidden := sum(counts.values()) - len(rows)) and rows:
        print(f"and {format_count(hidden, 'rows')} more")
    print(", ".join(f"{counts[kind]:,} {kind}" for kind in ("added", "removed", "changed")))
    return 0


def _find_last_versions(client: Client, dataset: str, job: str) -> tuple[int, int]:
    numbers = [each["version"] for each in client.get(f"/datasets/{dataset}/versions", limit=2)]
    if len(numbers) < 2:
        raise ClientError(f"The table of '{job}' has one version, so that there is nothing to compare.")
    return numbers[1], numbers[0]


def _fetch_rows(client: Client, query: str, limit: int) -> list[Json]:
    """Wait for the end of a query in the background and return its first rows."""
    while (state := client.get(f"/datasets/queries/{query}"))["status"] in ("PENDING", "RUNNING"):
        time.sleep(POLL_SECONDS)
    if state["status"] != "COMPLETED":
        raise ClientError(state["error"])
    return client.get(f"/datasets/queries/{query}/results", limit=limit)["rows"]


def _describe_column(column: Json) -> str:
    match column:
        case {"before": None}:
            return f"{column['name']}: added ({column['after']})"
        case {"after": None}:
            return f"{column['name']}: removed ({column['before']})"
        case _:
            return f"{column['name']}: {column['before']} → {column['after']}"


def _list_cells(row: Json, keys: list[str]) -> list[str]:
    """Return the cells of a differing row: a changed one shows its changed values alone, others all but the keys."""
    before, after = row["before"] or {}, row["after"] or {}
    folded = {key.casefold() for key in keys}
    if row["kind"] == "changed":
        changes = (f"{name}: {_format(before.get(name))} → {_format(after.get(name))}" for name in row["changed"])
    else:
        values = (after or before).items()
        changes = (f"{name}: {_format(value)}" for name, value in values if name.casefold() not in folded)
    # the columns after the kind are the keys, whatever names they have in the result
    return [row["kind"], *(_format(value) for value in [*row.values()][1 : len(keys) + 1]), ", ".join(changes)]


def _format(value: Any) -> str:
    return "null" if value is None else format_cell(value)
