"""The output of a local run as a Parquet file, as Spark would write it."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import RunError, summarize_error
from pipelines.filesystem import find_storage_failure, is_local, open_filesystem
from pipelines.passes.appending import fit_appended
from pipelines.passes.results import WrittenFiles
from pipelines.passes.types import format_type, parse_type
from pipelines.planning.context import Target
from pipelines.planning.model import Output

_GROUP_ROWS = 131_072


def write_output(rows: pa.Table, output: Output, path: str, target: Target) -> WrittenFiles:
    """Write the output's rows to a new folder `path`, as one file that is read-only where it is local."""
    fitted = _fit(rows, output, target)
    files, folder = open_filesystem(path)
    name = f"part-00000-{uuid.uuid4()}.zstd.parquet"
    try:
        if is_local(path):
            Path(folder).mkdir(parents=True)
        with files.open_output_stream(f"{folder}/{name}") as stream:
            pq.write_table(
                fitted,
                stream,
                compression="zstd",
                store_schema=False,  # other readers would take Arrow's types from it
                coerce_timestamps="us",
                row_group_size=_GROUP_ROWS,
            )
        size = files.get_file_info(f"{folder}/{name}").size
    except OSError as error:
        failure = find_storage_failure(str(error))
        raise failure or RunError(f"the output cannot be written: {summarize_error(error)}") from error
    if is_local(path):
        Path(folder, name).chmod(0o444)
    columns = tuple((field.name, format_type(field.type)) for field in fitted.schema)
    return WrittenFiles(columns, fitted.num_rows, size, 1)


def _fit(rows: pa.Table, output: Output, target: Target) -> pa.Table:
    """Return rows that fit those of the dataset that they are appended to; raise RunError otherwise."""
    columns = [(field.name, format_type(field.type)) for field in rows.schema]
    fitted = fit_appended(output.format, output.mode, output.partition_by, target, columns)
    if fitted is None:
        return rows
    arrays = [rows.column(each.name).cast(parse_type(each.type)) for each in fitted]
    return pa.table(arrays, names=[each.existing for each in fitted])
