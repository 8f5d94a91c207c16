"""Formats of files and tables that pipelines read and write."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal, get_args

from pipelines.errors import ArgumentError
from pipelines.language.columns import ENGINE_COLUMNS

FILE_FORMATS = ("parquet", "csv", "json", "avro")
TABLE_FORMATS = ("delta", "iceberg")  # with a log of their own, in which a version is a snapshot
PARQUET_FORMATS = ("parquet", *TABLE_FORMATS)  # whose data files are Parquet
FORMATS = (*FILE_FORMATS, *TABLE_FORMATS)
# the types of columns whose values are alike, as texts of partitions, in what Spark and the tables' own libraries write
SPLITTING_TYPES = frozenset({"string", "tinyint", "smallint", "int", "bigint", "date", "boolean"})
_LIBRARIES = {"delta": "delta", "iceberg": "iceberg", "avro": "avro"}
_NOT_IN_DELTA = frozenset(" ,;{}()=\n\t")  # of the names of columns


class Mode(StrEnum):
    """How a write treats earlier rows.

    They are replaced, kept along with the new ones, updated by keys, or closed where a key has a new state. Where there
    are earlier rows, `error` fails and `ignore` does nothing.
    """

    OVERWRITE = "overwrite"
    APPEND = "append"
    MERGE = "merge"
    ERROR = "error"
    IGNORE = "ignore"
    HISTORY = "history"


SaveMode = Literal[Mode.OVERWRITE, Mode.APPEND, Mode.MERGE, Mode.ERROR, Mode.IGNORE]
SAVE_MODES: tuple[SaveMode, ...] = get_args(SaveMode)
KEYED_MODES = (Mode.MERGE, Mode.HISTORY)
HISTORY_TYPES = {"valid_from": "timestamp", "valid_to": "timestamp", "is_current": "boolean"}  # of added columns


def list_format_libraries(format_: str | None) -> tuple[str, ...]:
    """Return the Java libraries that Spark needs for a format."""
    library = _LIBRARIES.get(format_ or "")
    return (library,) if library else ()


def check_target(
    format_: str,
    mode: Mode,
    keys: Iterable[str],
    partition_by: Iterable[str],
    merged: tuple[str, ...] = TABLE_FORMATS,
) -> None:
    """Raise ArgumentError for a mode that the format lacks, for keys without a mode for them, and for engine columns.

    The `merged` formats have the modes with keys.
    """
    keys, columns, is_keyed = tuple(keys), tuple(partition_by), mode in KEYED_MODES
    if is_keyed and format_ not in merged:
        names = f"{', '.join(merged[:-1])} or {merged[-1]}"
        raise ArgumentError(f"{mode} needs the format {names}, not {format_}", "unsupported-mode")
    if is_keyed and columns and format_ not in TABLE_FORMATS:
        done = "merged" if mode is Mode.MERGE else "kept as a history"
        raise ArgumentError(f"rows of {format_} with partitionBy cannot be {done}: use delta", "unsupported-mode")
    if is_keyed and not keys:
        raise ArgumentError(f"{mode} needs 'keys', the columns that tell rows apart", "missing-argument")
    if keys and not is_keyed:
        sentence = f"'keys' belong to the mode merge, for the output also to history, and the mode is {mode}"
        raise ArgumentError(sentence, "conflicting-arguments")
    for name in (*keys, *columns):
        if name in ENGINE_COLUMNS:
            raise ArgumentError(f"'{name}' is a column of the engine: give it another name first", "reserved-column")


def describe_unnamable_column(format_: str, names: Iterable[str]) -> str | None:
    """Return the sentence for a column whose name a table of the format cannot have; None without one."""
    found = next((name for name in names if format_ == "delta" and not _NOT_IN_DELTA.isdisjoint(name)), None)
    if found is None:
        return None
    return (
        f"a Delta table cannot have the column {found!a}: its names are without spaces, line ends and ,;{{}}()=; "
        "give the column another name, or write iceberg or parquet"
    )


def find_history_column(columns: Iterable[str]) -> str | None:
    """Return the first of the columns that has the name of one which a history adds, in any case."""
    return next((name for name in columns if name.casefold() in HISTORY_TYPES), None)


def describe_history_column(name: str) -> str:
    """Return the sentence for a column of the rows that has the name of a history's own."""
    return f"'{name}' is a column that the mode history adds: give the column of the rows another name"
