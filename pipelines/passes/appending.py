"""How the columns of rows fit those of the dataset that they are appended to or merged into."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipelines.errors import RunError
from pipelines.language.formats import Mode
from pipelines.planning.context import Target

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")  # each holds the values of those before it
_EXACT = 4  # of them are integers
ColumnTypes = Sequence[tuple[str, str]]


class FittedColumn(NamedTuple):
    """A column of new rows, and the name and type that it takes."""

    name: str
    existing: str
    type: str


def fit_appended(
    format_: str, mode: Mode, partition_by: tuple[str, ...], target: Target, columns: ColumnTypes
) -> list[FittedColumn] | None:
    """Return how the columns of files fit those of a dataset; None where nothing has to fit. Raise RunError."""
    if mode not in (Mode.APPEND, Mode.MERGE) or not target.exists or target.format != format_:
        return None
    if target.partition_by != partition_by:
        given, wanted = (", ".join(each) or "nothing" for each in (partition_by, target.partition_by))
        raise RunError(f"the dataset is partitioned by {wanted}, and rows partitioned by {given} cannot be appended")
    return [*fit_columns(columns, target.columns)] if format_ == "parquet" else None


def fit_columns(given: ColumnTypes, existing: ColumnTypes) -> Iterator[FittedColumn]:
    """Yield the columns with the types of existing ones, where those hold all values; raise RunError otherwise.

    Names that differ in case only take the existing spelling.
    """
    known = {name.casefold(): (name, type_) for name, type_ in existing}
    for name, type_ in given:
        found, wanted = known.get(name.casefold(), (name, type_))
        if type_ != wanted and not _holds(wanted, type_):
            raise RunError(
                f"the column '{found}' is {wanted} in the dataset and {type_} in the new rows; give it one "
                "type, with a CAST in sql_query, or write with mode overwrite"
            )
        yield FittedColumn(name, found, wanted)


def _holds(wanted: str, given: str) -> bool:
    """Return whether a column of one type holds all values of another."""
    if given == "void":
        return True
    if wanted not in _NUMBERS or given not in _NUMBERS:
        return False
    place, source = _NUMBERS.index(wanted), _NUMBERS.index(given)
    if source < _EXACT <= place:  # a float has 24 bits for whole numbers, a double 53
        return source <= (1 if wanted == "float" else 2)
    return source < place


def merges_files(format_: str, mode: Mode, target: Target) -> bool:
    """Return whether the rows are merged into those of a dataset's files."""
    return mode is Mode.MERGE and format_ == "parquet" and target.exists and target.format == format_


def describe_equal_keys(keys: Sequence[str], values: Sequence[object]) -> str:
    """Return the sentence for two rows of a merge with the same keys: only one of them could be kept."""
    found = ", ".join(f"{key} {value!r}" for key, value in zip(keys, values, strict=True))
    return f"several rows have the same keys ({found}); put a dedup of {', '.join(keys)} before it"
