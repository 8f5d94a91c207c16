"""The files that a run writes: its output, and the rows of save stages, as files or as versions of tables."""

from __future__ import annotations

import shutil
import time
import uuid
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from functools import partial, reduce
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pipelines.columns.appending import (
    FittedColumn,
    check_merged,
    describe_equal_keys,
    fit_appended,
    rewrites_files,
    widen_columns,
)
from pipelines.columns.types import parse_type
from pipelines.contract.context import RunContext, escape_pattern
from pipelines.contract.report import MergedVersion, SavedRows, WrittenFiles
from pipelines.contract.request import OUTPUT, Files, Target
from pipelines.engine.local_files import find_header, move_rows, names_file
from pipelines.errors import RunError
from pipelines.filesystem import (
    StoredFile,
    delete_file,
    delete_folder,
    has_file,
    is_local,
    list_data_files,
    move_file,
    open_filesystem,
)
from pipelines.language.columns import declare_columns, list_fields, quote_column
from pipelines.language.formats import TABLE_FORMATS, Mode, describe_unnamable_column
from pipelines.planning.model import Output
from pipelines.planning.plan import Plan, Step
from pipelines.planning.stage import STAGES, Export, Sink
from pipelines.spark.dataframes import write_files
from pipelines.spark.tasks import iter_batches
from pipelines.tables.commits import Write, write_version
from pipelines.tables.spark_rows import list_covered, select_fitted
from pipelines.tables.spark_tables import open_table
from pipelines.tables.stored import measure_partitions

_READERS = 8  # files whose metadata are read at once


def write_parquet(rows: DataFrame, path: str) -> WrittenFiles:
    """Write rows to a new folder `path` and make local files read-only."""
    rows.write.mode("errorifexists").parquet(path)
    return _protect_files(rows, path)


def write_output(rows: DataFrame, plan: Plan, path: str, context: RunContext, since: int) -> WrittenFiles:
    """Write the output's rows to a new folder `path`, or as the next version of the output's table.

    Rows of another format than Parquet are read again. `since` is the time in milliseconds at which the run began.
    """
    output, target = plan.output, context.targets.get(OUTPUT, Target())
    if output.format in TABLE_FORMATS:
        partition_by = tuple(plan.partition) or output.partition_by
        write = Write(output.mode, output.keys, partition_by, context.author, since, output.within, plan.partition)
        return write_table(rows, output.format, target.location or path, write, target)
    columns = fit_appended(output.format, output.mode, output.partition_by, target, rows.dtypes)
    fitted = rows if columns is None else select_fitted(rows, columns)
    if columns is not None and rewrites_files(output.mode, target, columns):
        return _rewrite_files(fitted, _read_earlier(rows.sparkSession, target, columns), output, path, target)
    write_files(fitted, path, output.format, output.partition_by)
    return _protect_files(fitted, path)


def _read_earlier(spark: SparkSession, target: Target, columns: Sequence[FittedColumn]) -> DataFrame:
    """Return the rows of the target's files, with the types that they have together with new ones."""
    schema = declare_columns(target.columns)
    groups = [[path] for path in target.paths] if target.partition_by else [target.paths]
    reader = spark.read.schema(schema)
    parts = [reader.parquet(*map(escape_pattern, paths)) for paths in groups]  # of one partitioned folder at a time
    widened = [FittedColumn(name, name, type_) for name, type_ in widen_columns(target.columns, columns)]
    return select_fitted(reduce(DataFrame.unionByName, parts), widened)


def _rewrite_files(rows: DataFrame, earlier: DataFrame, output: Output, path: str, target: Target) -> WrittenFiles:
    """Write earlier rows without those that new rows replace, and the new rows, which are read several times.

    Columns that the new rows lack keep their values.
    """
    keys = output.keys
    check_merged(keys, output.within, rows.columns)
    _check_keys(rows, keys)
    added = _keep_columns(rows, earlier, keys)
    known = {name.casefold() for name in earlier.columns}
    fields = [field for field in rows.schema if field.name.casefold() not in known]
    earlier = earlier.select("*", *(F.lit(None).cast(field.dataType).alias(field.name) for field in fields))
    if keys:
        replaced = rows.select(*(F.col(quote_column(key)).alias(f"__key{at}") for at, key in enumerate(keys)))
        conditions = [earlier[quote_column(key)].eqNullSafe(replaced[f"__key{at}"]) for at, key in enumerate(keys)]
        earlier = earlier.join(replaced, conditions, "left_anti")
    if output.within:
        covered = list_covered(rows, output.within).toDF("__within")
        earlier = earlier.join(covered, F.col(quote_column(output.within)) == F.col("__within"), "left_anti")
    merged = earlier.unionByName(added, allowMissingColumns=True)
    write_files(merged, path, "parquet", target.partition_by)
    whole = _protect_files(merged, path)
    return replace(whole, rows=rows.count(), total_rows=whole.rows)


def _keep_columns(rows: DataFrame, earlier: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the rows with the columns that they lack, as the earlier rows of equal keys have them."""
    lacking = [quote_column(name) for name in earlier.columns if name not in rows.columns]
    if not (keys and lacking):
        return rows
    names = [f"__key{at}" for at in range(len(keys))]
    kept = earlier.select(
        *(F.col(quote_column(key)).alias(name) for key, name in zip(keys, names, strict=True)), *lacking
    )
    conditions = [F.col(quote_column(key)).eqNullSafe(F.col(name)) for key, name in zip(keys, names, strict=True)]
    return rows.join(kept, conditions, "left").drop(*names)


def write_table(rows: DataFrame, format_: str, location: str, write: Write, target: Target) -> WrittenFiles:
    """Write rows as the next version of a table; those of a merge are read several times."""
    if fault := describe_unnamable_column(format_, list_fields(rows.dtypes)):
        raise RunError(fault)
    _check_keys(rows, write.keys)
    version = write_version(open_table(rows.sparkSession, format_, location), rows, write, target)
    if write.partition:
        parts = measure_partitions(format_, location, version.snapshot, tuple(write.partition))
        version = replace(version, parts=parts)
    written = rows.count() if write.keys or version.written is None else version.written  # a merge writes old rows too
    return WrittenFiles.from_version(version, written)


def order_rows(rows: DataFrame) -> DataFrame:
    """Return the rows in document order in one partition, which gives one file."""
    return rows.repartition(1).sortWithinPartitions("_ordinal")


def _order_columns(rows: DataFrame, names: Sequence[str] | None) -> DataFrame:
    """Return the rows with these columns, null where they have none; unchanged without names."""
    if names is None:
        return rows
    own = {*rows.columns}
    return rows.select(
        *(F.col(quote_column(name)) if name in own else F.lit(None).cast("string").alias(name) for name in names)
    )


def _check_keys(rows: DataFrame, keys: Sequence[str]) -> None:
    """Raise RunError when two rows of a merge have the same keys: only one of them could be kept."""
    if not keys:
        return
    twice = rows.groupBy(*map(quote_column, keys)).count().where("count > 1").drop("count").first()
    if twice is not None:
        raise RunError(describe_equal_keys(keys, [*twice]))


def read_parquet(spark: SparkSession, schema: StructType, path: str) -> DataFrame:
    """Return the rows that `write_parquet` has written."""
    return spark.read.schema(schema).parquet(escape_pattern(path))


class Saves:
    """The save stages of one run.

    Local paths, and those in buckets of users, are written to a hidden folder, and `commit` moves the files. It also
    writes the versions of tables.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._since = int(time.time() * 1000)
        self._saved: list[SavedRows] = []
        self._exports: list[Callable[[], object]] = []
        self._moves: list[Callable[[], object]] = []

    def write(self, stage: Sink, rows: DataFrame) -> None:
        """Write the rows; from now on the run itself loads them by the stage's path. Raise RunError."""
        if stage.mode is Mode.IGNORE and self._context.has_rows(stage.path):
            return
        address = self._context.resolve_address(stage.path)
        target = None if address else self._context.resolve_local_target(stage.path)
        if stage.format in TABLE_FORMATS:
            self._moves.append(partial(self._write_table, stage, rows, address or (str(target) if target else None)))
            self._context.saved[stage.path] = Files((), stage.format)
            return
        if address:
            if stage.mode is Mode.APPEND and has_file(address):
                raise RunError(f"'{stage.path}' is a file in a bucket, which cannot be lengthened: append to a folder")
            earlier = self._list_earlier(stage, address)
            folder = self._stage_upload(address, stage.mode, self.writes_file(stage))
        else:
            earlier = self._get_appended_files(stage, target)
            number = f"{self._context.saves_folder}/{len(self._saved) + 1}"
            folder = self._stage_move(stage, target) if target else number
        known = self._context.targets.get(stage.path, Target())
        columns = fit_appended(stage.format, stage.mode, stage.partition_by, known, rows.dtypes)
        fitted = rows if columns is None else select_fitted(rows, columns)
        if target and stage.mode is Mode.APPEND and self.writes_file(stage):
            fitted = _order_columns(fitted, find_header(target, stage.format, fitted.columns))
        if columns is not None and rewrites_files(stage.mode, known, columns):
            earlier_rows = _read_earlier(rows.sparkSession, known, columns)
            written, earlier = _rewrite_files(fitted, earlier_rows, Output(), folder, known), ()
            self._add(stage, Path(folder).name, written, known.version)
        else:
            stage.write(fitted, folder)
            if target or address:
                _list_files(folder)
            else:
                self._add(stage, Path(folder).name, _protect_files(fitted, folder))
        self._context.saved[stage.path] = Files(
            (*earlier, folder),
            stage.format,
            columns=tuple(fitted.dtypes) if stage.partition_by else (),
            partition_by=stage.partition_by,
        )

    def order_output(self, rows: DataFrame, output: Output) -> DataFrame:
        """Return the rows that become the output, in document order where that is one file."""
        if output.own_path is None or self._context.saves_folder is not None:
            return rows
        return order_rows(rows) if self.writes_file(_make_sink(output, output.own_path)) else rows

    def writes_file(self, stage: Sink) -> bool:
        """Return whether the rows become one file at a local path or in a bucket, in document order."""
        if not names_file(stage.path, stage.format, stage.partition_by):
            return False
        if address := self._context.resolve_address(stage.path):
            return not (stage.mode is Mode.APPEND and list_data_files(address, recursive=True))
        target = self._context.resolve_local_target(stage.path)
        return target is not None and not (stage.mode is Mode.APPEND and target.is_dir())

    def add_export(self, step: Step, stage: Export, rows: DataFrame) -> None:
        """Let `commit` write the rows to another system. Raise RunError for an address that must not be reached."""
        context = replace(self._context, step=step.key)
        stage.prepare(context)

        def export() -> None:
            try:
                schema = pa.schema([(name, parse_type(type_)) for name, type_ in rows.dtypes])
                stage.export(schema, iter_batches(rows), context)
            except RunError as error:
                raise RunError(f"line {step.line}: {step.title}: {error}", step.line) from error

        self._exports.append(export)

    def copy_output(self, rows: DataFrame, output: Output) -> None:
        """Write the output also to its path, if that is in a bucket of the user or of a machine without a service."""
        path = output.own_path
        address = self._context.resolve_address(path) if path else None
        if path is None or not (address or self._context.saves_folder is None):
            return
        if output.mode is Mode.IGNORE and self._context.has_rows(path):
            return
        if output.format in TABLE_FORMATS:
            location = address or str(self._context.resolve_local_target(path))
            write = Write(output.mode, output.keys, output.partition_by, "", self._since, output.within)
            self._moves.append(partial(write_table, rows, output.format, location, write, Target()))
        elif not address:
            self.write(_make_sink(output, path), rows)
        else:
            one_file = self.writes_file(_make_sink(output, path))
            folder = self._stage_upload(address, output.mode, one_file)
            write_files(rows.coalesce(1) if one_file else rows, folder, output.format, output.partition_by)

    def commit(self) -> tuple[SavedRows, ...]:
        """Write to other systems, rename local files to their targets and write tables.

        Return the saves in project storage, which the service publishes.
        """
        for move in (*self._exports, *self._moves):
            move()
        return tuple(self._saved)

    def _write_table(self, stage: Sink, rows: DataFrame, own: str | None) -> None:
        """Write a version of a table; a user's `own` has no published version, so that nothing is taken back."""
        author = "" if own else self._context.author
        write = Write(stage.mode, stage.merge_keys, stage.partition_by, author, self._since)
        target = Target() if own else self._context.targets.get(stage.path, Target())
        location = own or target.location or f"{self._context.saves_folder}/{stage.format}"
        written = write_table(rows, stage.format, location, write, target)
        if not own:
            self._add(stage, None, written)

    def _add(self, stage: Sink, folder: str | None, written: WrittenFiles, merged: str | None = None) -> None:
        own = {each.name: getattr(written, each.name) for each in fields(written)}
        own["partition_by"] = written.partition_by if written.table else stage.partition_by
        base = MergedVersion(merged) if merged else None
        self._saved.append(
            SavedRows(**own, path=stage.path, mode=stage.mode, format=stage.format, folder=folder, merged=base)
        )

    def _get_appended_files(self, stage: Sink, target: Path | None) -> tuple[str, ...]:
        """Return the existing files that the stage appends to."""
        if stage.mode is not Mode.APPEND or not (target.exists() if target else stage.path in self._context.inputs):
            return ()
        return self._context.find_files(stage.path).paths

    def _list_earlier(self, stage: Sink, address: str) -> tuple[str, ...]:
        """Return the files in a bucket that the stage appends to."""
        return () if stage.mode is not Mode.APPEND else tuple(each.path for each in list_data_files(address))

    def _stage_upload(self, address: str, mode: Mode, one_file: bool) -> str:
        """Return a hidden folder in a bucket, whose files, or only file, `commit` moves to the address."""
        place = address.rstrip("/")
        staged = f"{place.rpartition('/')[0] if one_file else place}/_spindle-{uuid.uuid4().hex}"
        cleanup = weakref.finalize(self, delete_folder, staged)

        def move() -> None:
            if one_file:
                (written,) = list_data_files(staged, recursive=True)
                delete_folder(place)  # in whose place some servers put no file
                move_file(written.path, place)
                cleanup()
                return
            earlier = [] if mode is Mode.APPEND else list_data_files(address, recursive=True)
            for file in list_data_files(staged, recursive=True):  # Spark's names are unique
                move_file(file.path, f"{place}/{file.name}")
            for file in earlier:
                delete_file(file.path)
            cleanup()

        self._moves.append(move)
        return staged

    def _stage_move(self, stage: Sink, target: Path) -> str:
        """Return a hidden folder that `commit` moves to the target, and that a failed run deletes."""
        staged = target.parent / f".{target.name}.{uuid.uuid4().hex}"
        cleanup = weakref.finalize(self, shutil.rmtree, staged, ignore_errors=True)
        one_file = self.writes_file(stage)  # not in `move`, which would keep this object alive

        def move() -> None:
            move_rows(staged, target, stage.mode, stage.format, one_file)
            cleanup()

        self._moves.append(move)
        return str(staged)


def _make_sink(output: Output, path: str) -> Sink:
    """Return the save stage that writes the rows of an output to its own path."""
    keys = {"keys": output.keys} if output.keys else {}
    given = {"path": path, "mode": output.mode, "partitionBy": output.partition_by, **keys}
    return cast("type[Sink]", STAGES.find(f"save_{output.format}").thing).model_validate(given)


def _protect_files(rows: DataFrame, path: str) -> WrittenFiles:
    """Make the local files of `rows` read-only and return their content."""
    columns = tuple((each.name, each.dataType.simpleString()) for each in rows.schema)
    files = _list_files(path)
    for file in files if is_local(path) else ():
        Path(open_filesystem(file.path)[1]).chmod(0o444)
    is_parquet = all(file.name.endswith(".parquet") for file in files)
    count = count_parquet_rows(files) if is_parquet else rows.count()
    return WrittenFiles(columns=columns, rows=count, bytes=sum(file.size for file in files), files=len(files))


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
        for checksum in Path(open_filesystem(path)[1]).rglob(".*.crc"):
            checksum.unlink()
    return list_data_files(path, recursive=True)
