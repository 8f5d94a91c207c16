"""Files that a run writes: its output, and the rows of save stages."""

from __future__ import annotations

import shutil
import uuid
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pipelines.errors import RunError
from pipelines.filesystem import (
    StoredFile,
    delete_file,
    delete_folder,
    is_local,
    list_data_files,
    move_file,
    open_filesystem,
)
from pipelines.planning.context import Files, RunContext, escape_pattern
from pipelines.planning.model import Output
from pipelines.planning.stage import Mode, Sink

_READERS = 8  # files whose metadata are read at once


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The content of a folder of output files; columns as names and Spark SQL types."""

    columns: tuple[tuple[str, str], ...]
    rows: int
    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class SavedRows:
    """Rows saved under a path of the project's storage, in `folder` of the attempt's folder for saves."""

    path: str
    mode: Mode
    format: str
    folder: str
    written: WrittenFiles


def write_parquet(rows: DataFrame, path: str) -> WrittenFiles:
    """Write rows to a new folder `path` and make local files read-only."""
    rows.write.mode("errorifexists").parquet(path)
    return _protect_files(rows, path)


def read_parquet(spark: SparkSession, schema: StructType, path: str) -> DataFrame:
    """Return the rows that `write_parquet` has written."""
    return spark.read.schema(schema).parquet(escape_pattern(path))


class Saves:
    """The save stages of one run.

    Local paths, and those in buckets of users, are written to a hidden folder, and `commit` moves the files.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._saved: list[SavedRows] = []
        self._moves: list[Callable[[], None]] = []

    def write(self, stage: Sink, rows: DataFrame) -> None:
        """Write the rows; from now on the run itself loads them by the stage's path. Raise RunError."""
        address = self._context.resolve_address(stage.path)
        target = None if address else self._context.resolve_local_target(stage.path)
        if address:
            earlier, folder = self._list_earlier(stage, address), self._stage_upload(address, stage.mode)
        else:
            earlier = self._get_appended_files(stage, target)
            number = f"{self._context.saves_folder}/{len(self._saved) + 1}"
            folder = self._stage_move(stage, target) if target else number
        stage.write(rows, folder)
        if target or address:
            _list_files(folder)
        else:
            written = _protect_files(rows, folder)
            self._saved.append(SavedRows(stage.path, stage.mode, stage.format, Path(folder).name, written))
        self._context.saved[stage.path] = Files((*earlier, folder), stage.format)

    def copy_output(self, rows: DataFrame, output: Output) -> None:
        """Write the output also to its path, if that is in a bucket of the user."""
        address = self._context.resolve_address(output.path) if output.path else None
        if address:
            folder = self._stage_upload(address, output.mode)
            rows.write.parquet(folder)

    def commit(self) -> tuple[SavedRows, ...]:
        """Rename local files to their targets; return the saves in project storage, which the service publishes."""
        for move in self._moves:
            move()
        return tuple(self._saved)

    def _get_appended_files(self, stage: Sink, target: Path | None) -> tuple[str, ...]:
        """Return the existing files that the stage appends to."""
        if stage.mode is Mode.OVERWRITE or not (target.exists() if target else stage.path in self._context.inputs):
            return ()
        return self._context.find_files(stage.path).paths

    def _list_earlier(self, stage: Sink, address: str) -> tuple[str, ...]:
        """Return the files in a bucket that the stage appends to."""
        return () if stage.mode is Mode.OVERWRITE else tuple(each.path for each in list_data_files(address))

    def _stage_upload(self, address: str, mode: Mode) -> str:
        """Return a hidden folder in a bucket, whose files `commit` moves to the address."""
        staged = f"{address.rstrip('/')}/_spindle-{uuid.uuid4().hex}"
        cleanup = weakref.finalize(self, delete_folder, staged)

        def move() -> None:
            earlier = list_data_files(address) if mode is Mode.OVERWRITE else []
            for file in list_data_files(staged):  # Spark's names are unique
                move_file(file.path, f"{address.rstrip('/')}/{file.name}")
            for file in earlier:
                delete_file(file.path)
            cleanup()

        self._moves.append(move)
        return staged

    def _stage_move(self, stage: Sink, target: Path) -> str:
        """Return a hidden folder that `commit` moves to the target, and that a failed run deletes."""
        staged = target.parent / f".{target.name}.{uuid.uuid4().hex}"
        cleanup = weakref.finalize(self, shutil.rmtree, staged, ignore_errors=True)

        def move() -> None:
            _move(staged, target, stage.mode)
            cleanup()

        self._moves.append(move)
        return str(staged)


def _move(staged: Path, target: Path, mode: Mode) -> None:
    if mode is Mode.APPEND and target.is_dir():
        for file in sorted(staged.iterdir()):  # Spark's names are unique
            file.rename(target / file.name)
    elif mode is Mode.APPEND and target.exists():
        raise RunError(f"'{target}' is a file; rows can be appended to a folder only")
    else:
        earlier = target.with_name(f"{staged.name}.earlier")
        if target.exists():
            target.rename(earlier)
        staged.rename(target)
        if earlier.is_dir():
            shutil.rmtree(earlier)
        else:
            earlier.unlink(missing_ok=True)


def _protect_files(rows: DataFrame, path: str) -> WrittenFiles:
    """Make the local files of `rows` read-only and return their content."""
    columns = tuple((each.name, each.dataType.simpleString()) for each in rows.schema)
    files = _list_files(path)
    for file in files if is_local(path) else ():
        Path(open_filesystem(file.path)[1]).chmod(0o444)
    is_parquet = all(file.name.endswith(".parquet") for file in files)
    count = count_parquet_rows(files) if is_parquet else rows.count()
    return WrittenFiles(columns, count, sum(file.size for file in files), len(files))


def count_parquet_rows(files: Sequence[StoredFile]) -> int:
    """Return the number of rows by the files' own metadata. Raises OSError and ValueError for damaged files."""

    def count(file: StoredFile) -> int:
        filesystem, path = open_filesystem(file.path)
        return pq.read_metadata(path, filesystem=filesystem).num_rows

    with ThreadPoolExecutor(_READERS) as readers:
        return sum(readers.map(count, files))


def _list_files(path: str) -> list[StoredFile]:
    """Return the files that Spark wrote to a folder, after deleting Hadoop's checksums."""
    if is_local(path):
        for checksum in Path(open_filesystem(path)[1]).glob(".*.crc"):
            checksum.unlink()
    return list_data_files(path)
