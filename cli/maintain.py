"""`spindle maintain`: small files of a job's table are merged, and those that no version needs are removed."""

from __future__ import annotations

from cli.client import Connection, connect
from cli.restore import find_output
from cli.terminal import format_count

_SECONDS = 1800
"""Time that a large table may take."""


def maintain(connection: Connection, job: str, days: int) -> int:
    """Maintain the table that a job publishes, and print what was done."""
    with connect(connection) as client:
        done = client.post(f"/datasets/{find_output(client, job)}/maintain", {"days": days}, timeout=_SECONDS)
    merged, written = done["filesMerged"], done["filesWritten"]
    removed, size = done["filesRemoved"], format_count(done["bytesRemoved"], "bytes")
    if merged:
        print(f"{format_count(merged, 'small files')} were merged into {written}.")
    if removed:
        print(f"{format_count(removed, 'files')} that no version needs ({size}) are deleted after {done['dueAt']}.")
    if not merged and not removed:
        print(f"There is nothing to do for the table of {job}.")
    return 0
