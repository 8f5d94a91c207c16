"""Files that tests put into the storage, whatever it is, as drivers do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from core.infra.settings import Settings
from core.infra.storage import open_storage

NAME = "part-00000.snappy.parquet"


def store_rows(
    settings: Settings, folder: str, rows: pa.Table, partition_by: Sequence[str] = (), name: str = NAME
) -> str:
    """Store rows as the only Parquet file of a folder; return the folder's address for Spark.

    With `partition_by`, values of these columns are in the names of folders, one with a file for each.
    """
    storage = open_storage(settings.storage)
    for key, part in _split(rows, folder, partition_by):
        file = BytesIO()
        pq.write_table(part, file)
        file.seek(0)
        storage.put(f"{key}/{name}", file)
    return storage.url_for(folder, "spark")


def _split(rows: pa.Table, folder: str, partition_by: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    if not partition_by:
        yield folder, rows
        return
    column, *others = partition_by
    values = rows[column].to_pylist()
    for value in dict.fromkeys(values):
        chosen = rows.filter(pa.array([each == value for each in values]))
        text = "__HIVE_DEFAULT_PARTITION__" if value is None else _escape(str(value))
        yield from _split(chosen.drop_columns([column]), f"{folder}/{column}={text}", others)


def _escape(value: str) -> str:
    """Return a value as Spark writes it in the name of a folder."""
    return re.sub(r"""[\x00-\x1f"#%'*/:=?\\{\[\]^\x7f]""", lambda match: f"%{ord(match[0]):02X}", value)


def store_text(settings: Settings, key: str, text: str) -> None:
    open_storage(settings.storage).put(key, BytesIO(text.encode()))
