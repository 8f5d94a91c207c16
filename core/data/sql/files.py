"""The files of a published table, as engines list them."""

from __future__ import annotations

from core.data.datasets.version_files import list_version_files
from core.data.sql.catalog import Table
from core.errors import Unavailable
from core.infra.storage.protocol import Reader, Storage


def list_parquet_keys(storage: Storage, organization_id: str, table: Table) -> list[str]:
    """Return the keys of the table's Parquet files.

    Raises Unavailable when they are missing, or when a file is not in the organization's own storage.
    """
    keys = list_version_files(storage, organization_id, table.format, table.locations, table.snapshot, table.files)
    files = [key for key in keys if key.endswith(".parquet")]
    if table.row_count and not files:
        raise Unavailable(f"The files of the table {table.full_name} are missing.", code="missing-files")
    return files


def list_parquet_files(storage: Storage, organization_id: str, table: Table, reader: Reader = "sql") -> tuple[str, ...]:
    """Return the addresses of the table's Parquet files for a reader. Raises what `list_parquet_keys` raises."""
    return tuple(storage.url_for(key, reader) for key in list_parquet_keys(storage, organization_id, table))
