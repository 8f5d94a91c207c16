"""Files that tests put into the storage, whatever it is, as drivers do."""

from __future__ import annotations

from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from core.infra.settings import Settings
from core.infra.storage import open_storage


def store_rows(settings: Settings, folder: str, rows: pa.Table) -> str:
    """Store rows as the only Parquet file of a folder; return the folder's address for Spark."""
    file = BytesIO()
    pq.write_table(rows, file)
    file.seek(0)
    storage = open_storage(settings)
    storage.put(f"{folder}/part-00000.snappy.parquet", file)
    return storage.url_for(folder, "spark")


def store_text(settings: Settings, key: str, text: str) -> None:
    open_storage(settings).put(key, BytesIO(text.encode()))
