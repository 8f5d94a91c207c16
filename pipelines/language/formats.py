"""Formats of datasets and the modes in which rows are written."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from pipelines.errors import ArgumentError
from pipelines.language.columns import ENGINE_COLUMNS

FILE_FORMATS = ("parquet", "csv", "json", "avro")
TABLE_FORMATS = ("delta", "iceberg")  # with a log of their own, in which a version is a snapshot
FORMATS = (*FILE_FORMATS, *TABLE_FORMATS)
_LIBRARIES = {"delta": "delta", "iceberg": "iceberg", "avro": "avro"}


class Mode(StrEnum):
    """How a write treats earlier rows.

    They are replaced, kept along with the new ones, or updated by keys. Where there are earlier rows, `error` fails and
    `ignore` does nothing.
    """

    OVERWRITE = "overwrite"
    APPEND = "append"
    MERGE = "merge"
    ERROR = "error"
    IGNORE = "ignore"


def list_format_libraries(format_: str | None) -> tuple[str, ...]:
    """Return the Java libraries that Spark needs for a format."""
    library = _LIBRARIES.get(format_ or "")
    return (library,) if library else ()


def check_target(format_: str, mode: Mode, keys: Iterable[str], partition_by: Iterable[str]) -> None:
    """Raise ArgumentError for a mode that the format lacks, for keys without merge, and for engine columns."""
    keys, columns = tuple(keys), tuple(partition_by)
    if mode is Mode.MERGE and format_ not in TABLE_FORMATS:
        raise ArgumentError(f"merge needs the format delta or iceberg, not {format_}", "unsupported-mode")
    if mode is Mode.MERGE and not keys:
        raise ArgumentError("merge needs 'keys', the columns that tell rows apart", "missing-argument")
    if keys and mode is not Mode.MERGE:
        raise ArgumentError(f"'keys' belong to the mode merge, and the mode is {mode}", "conflicting-arguments")
    for name in (*keys, *columns):
        if name in ENGINE_COLUMNS:
            raise ArgumentError(f"'{name}' is a column of the engine: give it another name first", "reserved-column")
