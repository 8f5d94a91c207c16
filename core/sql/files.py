"""The files of a published table, as engines list them."""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import Unavailable
from core.infra.storage.protocol import InvalidKey, Reader, Storage
from core.sql.catalog import Table


def list_parquet_files(storage: Storage, organization_id: str, table: Table, reader: Reader = "sql") -> tuple[str, ...]:
    """Return the addresses of the table's Parquet files for a reader.

    Raises Unavailable when they are missing, or when a file is not in the organization's own storage.
    """
    try:
        keys = _list_keys(storage, table) if table.files is None else table.files
        if not all(key.startswith(f"{organization_id}/") for key in (*keys, *table.locations)):
            raise InvalidKey
        files = tuple(storage.url_for(key, reader) for key in keys if key.endswith(".parquet"))
    except InvalidKey:
        sentence = "The files of this table are outside the organization's storage."
        raise Unavailable(sentence, code="foreign-files") from None
    if table.row_count and not files:
        raise Unavailable(f"The files of the table {table.full_name} are missing.", code="missing-files")
    return files


def _list_keys(storage: Storage, table: Table) -> Sequence[str]:
    """Return the keys of the files directly in the folders of a table that an earlier release has published."""
    keys = [(folder, file.key) for folder in table.locations for file in storage.list(folder)]
    return [key for folder, key in keys if key.rpartition("/")[0] == folder]
