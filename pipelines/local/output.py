"""The output of a local run as a Parquet file or in a table, as Spark would write it."""

from __future__ import annotations

import logging
import shutil
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.columns.appending import check_merged, fit_appended, rewrites_files, widen_columns
from pipelines.columns.types import format_type, parse_type
from pipelines.contract.context import RunContext
from pipelines.contract.report import WrittenFiles
from pipelines.contract.request import OUTPUT, Target
from pipelines.engine.local_files import find_header, move_rows, names_file
from pipelines.errors import RunError, summarize_error
from pipelines.filesystem import find_storage_failure, is_disk_full, is_local, list_data_files, open_filesystem
from pipelines.language.formats import TABLE_FORMATS, Mode
from pipelines.local.merging import merge_rows, read_batches
from pipelines.local.table_output import write_table
from pipelines.local.tables import select_fitted
from pipelines.planning.model import Output
from pipelines.planning.plan import Plan
from pipelines.tables.commits import Write

_GROUP_ROWS, _MOST_GROUP_ROWS = 131_072, 1_048_576  # every group has its own dictionaries
_GROUP_BYTES = 128 * 1024 * 1024
ROOM_SECONDS = 1.0

_log = logging.getLogger(__name__)


def write_output(rows: pa.Table, plan: Plan, path: str, context: RunContext, since: int) -> WrittenFiles:
    """Write the output's rows to a new folder `path`, as one file that is read-only where it is local, or to its table.

    Rows of a merge are written with those that they are merged into. A full disk is waited for. `since` is the time in
    milliseconds at which the run began.
    """
    output, target = plan.output, context.targets.get(OUTPUT, Target())
    if output.format in TABLE_FORMATS:
        partition_by = tuple(plan.partition) or output.partition_by
        write = Write(output.mode, output.keys, partition_by, context.author, since, output.within, plan.partition)
        return write_table(rows, output.format, target.location or path, write, target)
    return _wait_for_room(lambda: _write_output(rows, output, path, target), path)


def _write_output(rows: pa.Table, output: Output, path: str, target: Target) -> WrittenFiles:
    columns = [(field.name, format_type(field.type)) for field in rows.schema]
    fit = fit_appended(output.format, output.mode, output.partition_by, target, columns)
    fitted = rows if fit is None else select_fitted(rows, fit)
    if fit is not None and rewrites_files(output.mode, target, fit):
        check_merged(output.keys, output.within, fitted.column_names)
        earlier = pa.schema([(name, parse_type(type_)) for name, type_ in widen_columns(target.columns, fit)])
        whole = _write_file(*merge_rows(fitted, output.keys, read_batches(target.paths), earlier, output.within), path)
        return replace(whole, rows=fitted.num_rows, total_rows=whole.rows)
    return _write_file(fitted.schema, [fitted], path)


def write_rows(rows: pa.Table, path: str) -> WrittenFiles:
    """Write rows to a new folder `path`, as one file that is read-only where it is local. A full disk is waited for."""
    return _wait_for_room(lambda: _write_file(rows.schema, [rows], path), path)


def _wait_for_room(write: Callable[[], WrittenFiles], path: str) -> WrittenFiles:
    """Write a folder, again and again as long as its disk is full: the rows are there, and their pages were fetched."""
    is_told = False
    while True:
        try:
            written = write()
        except RunError as error:
            if not is_disk_full(error.__cause__) or not is_local(path):
                raise
            shutil.rmtree(open_filesystem(path)[1], ignore_errors=True)
            if not is_told:
                _log.warning("the output waits for room: there is no space left on its disk")
            is_told = True
            time.sleep(ROOM_SECONDS)
        else:
            _protect_files(path)
            return written


def _protect_files(path: str) -> None:
    if is_local(path):
        for file in list_data_files(path):
            Path(open_filesystem(file.path)[1]).chmod(0o444)


def copy_output(rows: pa.Table, output: Output, context: RunContext, since: int) -> None:
    """Write the output to its path on a machine without a service, as a folder, as one file or to a table."""
    if output.own_path is None or context.saves_folder is not None:
        return
    target = context.resolve_local_target(output.own_path)
    if target is None or (output.mode is Mode.IGNORE and target.exists()):
        return
    if output.format in TABLE_FORMATS:
        write = Write(output.mode, output.keys, output.partition_by, "", since, output.within)
        write_table(rows, output.format, str(target), write, Target())
        return
    is_folder = output.mode is Mode.APPEND and target.is_dir()
    one_file = names_file(output.own_path, output.format, ()) and not is_folder
    if one_file and output.mode is Mode.APPEND:
        find_header(target, output.format, rows.column_names)
    staged = target.parent / f".{target.name}.{uuid.uuid4().hex}"
    try:
        _write_file(rows.schema, [rows], str(staged))
        move_rows(staged, target, output.mode, output.format, one_file)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _write_file(schema: pa.Schema, parts: Iterable[pa.Table], path: str) -> WrittenFiles:
    """Write the parts of a table to a new folder `path` as one file."""
    count = 0
    files, folder = open_filesystem(path)
    name = f"part-00000-{uuid.uuid4()}.zstd.parquet"
    try:
        if is_local(path):
            Path(folder).mkdir(parents=True)
        with (
            files.open_output_stream(f"{folder}/{name}") as stream,
            pq.ParquetWriter(
                stream,
                schema,
                compression="zstd",
                store_schema=False,  # other readers would take Arrow's types from it
                coerce_timestamps="us",
            ) as writer,
        ):
            for part in parts:
                fitting = _GROUP_BYTES * part.num_rows // max(part.nbytes, 1)
                writer.write_table(part, row_group_size=min(max(fitting, _GROUP_ROWS), _MOST_GROUP_ROWS))
                count += part.num_rows
        size = files.get_file_info(f"{folder}/{name}").size
    except OSError as error:
        failure = find_storage_failure(str(error))
        raise failure or RunError(f"the output cannot be written: {summarize_error(error)}") from error
    columns = tuple((field.name, format_type(field.type)) for field in schema)
    return WrittenFiles(columns=columns, rows=count, bytes=size)
