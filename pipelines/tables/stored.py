"""The choice of a format for tables that are kept without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from pipelines.filesystem import S3Access
from pipelines.tables.delta import StoredDeltaTable
from pipelines.tables.iceberg import StoredIcebergTable
from pipelines.tables.protocol import StoredTable

REMEMBERED = 256  # snapshots
_KINDS: Mapping[str, Callable[[str, S3Access | None], StoredTable]] = {
    "delta": StoredDeltaTable,
    "iceberg": StoredIcebergTable,
}


def open_stored_table(format_: str, location: str, access: S3Access | None) -> StoredTable:
    """Return the table of a format in a folder, or in a bucket with the access to it."""
    return _KINDS[format_](location, access)


@lru_cache(REMEMBERED)
def list_snapshot_files(format_: str, location: str, snapshot: str, access: S3Access | None) -> tuple[str, ...]:
    """Return the addresses of a snapshot's files, which never change; raise TableFault."""
    return open_stored_table(format_, location, access).list_files(snapshot)
