"""The files of a published table, as engines list them."""

from __future__ import annotations

from collections.abc import Sequence

from core.data.datasets.missing_files import MISSING_FILES, report_missing
from core.data.datasets.version_files import list_version_files
from core.data.sql.catalog import Table
from core.infra.storage.protocol import Reader, Storage


def list_parquet_keys(storage: Storage, organization_id: str, table: Table) -> list[str]:
    """Return the keys of the table's Parquet files.

    Raises Conflict when some of them are missing, and Unavailable for a file outside the organization's own storage.
    """
    keys = list_version_files(storage, organization_id, table.format, table.locations, table.snapshot, table.files)
    files = [key for key in keys if key.endswith(".parquet")]
    if table.row_count and not files:
        raise report_missing(storage, table.title)
    _check(storage, table, files)
    return files


def check_files_again(storage: Storage, organization_id: str, table: Table) -> None:
    """Raise Conflict when files of a table are missing now; for queries that have failed."""
    keys = list_version_files(storage, organization_id, table.format, table.locations, table.snapshot, table.files)
    _check(storage, table, keys, again=True)


def _check(storage: Storage, table: Table, keys: Sequence[str], *, again: bool = False) -> None:
    place = table.format, table.locations, table.snapshot
    MISSING_FILES.check(storage, table.title, *place, keys, again=again)


def list_parquet_files(storage: Storage, organization_id: str, table: Table, reader: Reader = "sql") -> tuple[str, ...]:
    """Return the addresses of the table's Parquet files for a reader. Raises the errors of `list_parquet_keys`."""
    return tuple(storage.url_for(key, reader) for key in list_parquet_keys(storage, organization_id, table))
