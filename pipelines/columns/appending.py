"""How the columns of rows fit those of the dataset that they are appended to or merged into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pipelines.columns.widening import widen_type
from pipelines.contract.request import Target
from pipelines.errors import RunError
from pipelines.language.formats import Mode

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
    if target.fits_types:
        return [*_fit_partition(columns, target.columns)]
    if mode not in (Mode.APPEND, Mode.MERGE) or not target.exists or target.format != format_:
        return None
    if target.partition_by != partition_by:
        given, wanted = (", ".join(each) or "nothing" for each in (partition_by, target.partition_by))
        raise RunError(f"the dataset is partitioned by {wanted}, and rows partitioned by {given} cannot be appended")
    return [*fit_columns(columns, target.columns)] if format_ == "parquet" else None


def fit_columns(given: ColumnTypes, existing: ColumnTypes, scales: bool = True) -> Iterator[FittedColumn]:
    """Yield the columns with types that hold the values of existing ones too; raise RunError where there is none.

    Names that differ in case only take the existing spelling. Without `scales`, decimals keep their digits after the
    point.
    """
    known = {name.casefold(): (name, type_) for name, type_ in existing}
    for name, type_ in given:
        found, before = known.get(name.casefold(), (name, type_))
        widened = widen_type(before, type_, scales)
        if widened is None:
            raise RunError(
                f"the column '{found}' is {before} in the dataset and {type_} in the new rows; give it one "
                "type, with a CAST in sql_query, or write with mode overwrite"
            )
        yield FittedColumn(name, found, widened)


def _fit_partition(given: ColumnTypes, others: ColumnTypes) -> Iterator[FittedColumn]:
    """Yield the columns in the types of the other partitions, whose files stay; raise RunError for a wider type."""
    known = {name.casefold(): (name, type_) for name, type_ in others}
    for name, type_ in given:
        found, before = known.get(name.casefold(), (name, type_))
        if widen_type(before, type_, True) != before:
            raise RunError(
                f"the column '{found}' is {before} in the other partitions and {type_} in this one; give it their "
                "type, with a CAST in sql_query, or delete the dataset and execute all partitions"
            )
        yield FittedColumn(name, found, before)


def widen_columns(existing: ColumnTypes, fitted: Iterable[FittedColumn]) -> ColumnTypes:
    """Return the existing columns with the types that they have together with fitted ones."""
    types = {each.existing: each.type for each in fitted}
    return [(name, types.get(name, type_)) for name, type_ in existing]


def rewrites_files(mode: Mode, target: Target, fitted: Sequence[FittedColumn]) -> bool:
    """Return whether the rows are written together with those of a dataset's files.

    A merge replaces some of them. An append gives them their wider types: not all readers of a dataset read files in
    which a column has several.
    """
    return mode is Mode.MERGE or widen_columns(target.columns, fitted) != [*target.columns]


def check_merged(keys: Sequence[str], within: str | None, columns: Iterable[str]) -> None:
    """Raise RunError where the rows lack a column by which they are merged."""
    known = {name.casefold() for name in columns}
    if missing := next((name for name in (*keys, within) if name and name.casefold() not in known), None):
        raise RunError(f"the rows have no column '{missing}', by which the output merges them")


def describe_equal_keys(keys: Sequence[str], values: Sequence[object]) -> str:
    """Return the sentence for two rows of a merge with the same keys: only one of them could be kept."""
    found = ", ".join(f"{key} {value!r}" for key, value in zip(keys, values, strict=True))
    return f"several rows have the same keys ({found}); put a dedup of {', '.join(keys)} before it"
