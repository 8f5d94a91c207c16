"""The files of a published table, as engines list them."""

from __future__ import annotations

from core.errors import Unavailable
from core.infra.storage.protocol import InvalidKey, Storage
from core.sql.catalog import Table


def list_parquet_files(storage: Storage, organization_id: str, table: Table) -> tuple[str, ...]:
    """Return the addresses of the Parquet files directly in the table's folders.

    Raises Unavailable when they are missing, or when a folder is not in the organization's own storage.
    """
    files = tuple(file for folder in table.locations for file in _list_folder(storage, organization_id, folder))
    if table.row_count and not files:
        raise Unavailable(f"The files of the table {table.full_name} are missing.", code="missing-files")
    return files


def _list_folder(storage: Storage, organization_id: str, folder: str) -> list[str]:
    try:
        if not folder.startswith(f"{organization_id}/"):
            raise InvalidKey(folder)
        keys = [file.key for file in storage.list(folder) if file.key.endswith(".parquet")]
        return [storage.url_for(key, "sql") for key in keys if key.rpartition("/")[0] == folder]
    except InvalidKey:
        sentence = "The files of this table are outside the organization's storage."
        raise Unavailable(sentence, code="foreign-files") from None
