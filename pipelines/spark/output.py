"""Output rows → Parquet files that nobody changes any more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Written:
    """What an output holds; columns with their Spark SQL types."""

    columns: tuple[tuple[str, str], ...]
    rows: int
    bytes: int
    files: int


def write(rows: DataFrame, path: str) -> Written:
    """Writes rows to `path`, which must not be there yet, and makes local files read-only."""
    rows.write.mode("errorifexists").parquet(path)
    return seal(rows, path)


def seal(rows: DataFrame, path: str) -> Written:
    """What the files of `rows` in a folder hold, local ones read-only from now on."""
    columns = tuple((each.name, each.dataType.simpleString()) for each in rows.schema)
    files = tidy(path)
    for file in files:
        file.chmod(0o444)
    return Written(columns, _count(rows, files), sum(file.stat().st_size for file in files), len(files))


def tidy(path: str) -> list[Path]:
    """The files that Spark wrote to a folder, freed of Hadoop's checksums, which no reader wants."""
    folder = Path(unquote(urlsplit(path).path)) if path.startswith("file:") else Path(path)
    for leftover in folder.glob(".*.crc"):
        leftover.unlink()
    return sorted(file for file in folder.iterdir() if not file.name.startswith(("_", ".")))


def _count(rows: DataFrame, files: list[Path]) -> int:
    """Parquet files tell how many rows they hold; others do not, and their rows are at hand."""
    if all(file.suffix == ".parquet" for file in files):
        return sum(pq.read_metadata(file).num_rows for file in files)
    return rows.count()
