"""Output rows → Parquet files that nobody changes any more."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Written:
    """What an output holds; `schema` is JSON: a list of names with Spark SQL types."""

    path: str
    schema: str
    rows: int
    bytes: int
    files: int


def write(rows: DataFrame, path: str) -> Written:
    """Writes rows to `path`, which must not be there yet, and makes local files read-only."""
    rows.write.mode("errorifexists").parquet(path)
    schema = json.dumps([{"name": each.name, "type": each.dataType.simpleString()} for each in rows.schema])
    folder = Path(unquote(urlsplit(path).path)) if path.startswith("file:") else Path(path)
    for leftover in folder.glob(".*.crc"):  # Hadoop's checksums: no reader of the dataset wants them
        leftover.unlink()
    files = sorted(folder.glob("*.parquet"))
    for file in files:
        file.chmod(0o444)
    count = sum(pq.read_metadata(file).num_rows for file in files)
    return Written(path, schema, count, sum(file.stat().st_size for file in files), len(files))
