"""The choice of a format for tables that are kept without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from pipelines.contract.report import TablePart
from pipelines.errors import RunError
from pipelines.filesystem import S3Access
from pipelines.tables.delta import StoredDeltaTable
from pipelines.tables.iceberg import StoredIcebergTable
from pipelines.tables.protocol import StoredTable, TableFault, Values, find_table_access

REMEMBERED = 256  # snapshots
_KINDS: Mapping[str, Callable[[str, S3Access | None], StoredTable]] = {
    "delta": StoredDeltaTable,
    "iceberg": StoredIcebergTable,
}


def open_stored_table(format_: str, location: str, access: S3Access | None) -> StoredTable:
    """Return the table of a format in a folder, or in a bucket with the access to it."""
    return _KINDS[format_](location, access)


@lru_cache(REMEMBERED)
def list_snapshot_files(
    format_: str, location: str, snapshot: str, access: S3Access | None, partition: Values = ()
) -> tuple[str, ...]:
    """Return the addresses of a snapshot's files, which never change; raise TableFault."""
    return open_stored_table(format_, location, access).list_files(snapshot, partition)


def measure_partitions(format_: str, location: str, snapshot: str, columns: tuple[str, ...]) -> tuple[TablePart, ...]:
    """Return the partitions of a snapshot of a table that a run has written; raise RunError."""
    try:
        return open_stored_table(format_, location, find_table_access(location)).measure_partitions(snapshot, columns)
    except TableFault as fault:
        raise RunError(f"the partitions of the table cannot be listed: {fault}") from fault
