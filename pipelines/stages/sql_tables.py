"""The tables of statements that run in this process: Parquet files where they are, and other rows in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.context import RunContext, unescape_pattern
from pipelines.contract.request import Files
from pipelines.duckdb.views import View
from pipelines.errors import NeedsSpark, RunError
from pipelines.filesystem import is_local, open_filesystem
from pipelines.language.formats import TABLE_FORMATS
from pipelines.sql.type_names import convert_type
from pipelines.stages.load import read_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def open_table(context: RunContext, name: str, spark: SparkSession | None = None) -> View | pa.Table | None:
    """Return a dataset that a stage reads by name; None where nobody has published it.

    Raise RunError, and NeedsSpark for files that only Spark reads; with a session, it does.
    """
    from pipelines.local.dataset_files import read_dataset

    files = context.find_table(name)
    if not files.paths:
        return None
    try:
        view = _find_view(name, files)
        paths = [*map(unescape_pattern, files.paths)]
        return view or read_dataset(name, paths, files.format or "", lambda columns: columns)
    except NeedsSpark:
        if spark is None:
            raise
        return read_table(spark, context, name).toArrow()


def _find_view(name: str, files: Files) -> View | None:
    """Return a view of Parquet files on the machine; None for other files. Raise RunError for a folder without any."""
    from pipelines.local.dataset_files import list_files
    from pipelines.tables.protocol import TableFault, resolve_file
    from pipelines.tables.stored import list_snapshot_files

    paths, format_ = [*map(unescape_pattern, files.paths)], files.format or ""
    if not all(map(is_local, paths)):
        return None
    if format_ == "parquet":
        listed = [*list_files(paths)]
        if not listed:
            raise RunError(f"'{name}' has no files")
        if not files.partition_by and any("/" in file.name for file in listed):
            return None  # folders for values of columns, whose names and types Spark finds
        found = [open_filesystem(file.path)[1] for file in listed]
    elif format_ in TABLE_FORMATS and files.snapshot is not None:
        try:
            addresses = list_snapshot_files(format_, paths[0], files.snapshot, None, files.partition)
        except TableFault as error:
            raise NeedsSpark(f"only Spark reads '{name}': {error}") from error
        found = [resolve_file(paths[0], file) for file in addresses]
    else:
        return None
    columns = [(column, convert_type(type_, "spark", "duckdb")) for column, type_ in files.columns]
    partition_by = () if format_ == "iceberg" else files.partition_by
    return View(name, found, columns, partition_by, complete=format_ in TABLE_FORMATS)
