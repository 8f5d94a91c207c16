"""A dataset in memory, whose rows are found by their keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pipelines.columns.types import format_type
from pipelines.engine.key_types import describe_repeated_key, find_key_type
from pipelines.errors import RunError

_NAN = object()  # equal to itself, as NaN is in Spark
Key = tuple[Any, ...]


class LookupTable:
    """The rows of a dataset by the values of their `keys`; raises RunError for a key that is twice in it."""

    def __init__(self, dataset: str, rows: pa.Table, keys: Sequence[str]) -> None:
        self.rows = rows
        self._dataset = dataset
        self._keys = keys
        self._columns = [rows.column(key) for key in keys]
        self._indexes: dict[tuple[str, ...], dict[Key, int]] = {}
        self._build_index(tuple(format_type(column.type) for column in self._columns))

    def find_rows(self, names: Sequence[str], columns: Sequence[pa.ChunkedArray]) -> pa.Table:
        """Return the row of the dataset for every key in the columns, of nulls for an unknown key.

        Raise RunError where the types of the columns, which have these names, cannot be compared with the keys'.
        """
        types = tuple(
            find_key_type(name, format_type(column.type), key, format_type(own.type), self._dataset)
            for name, column, key, own in zip(names, columns, self._keys, self._columns, strict=True)
        )
        index = self._indexes.get(types) or self._build_index(types)
        wanted = zip(*map(_list_values, columns, types), strict=True)
        return self.rows.take(pa.array([index.get(key) for key in wanted], pa.int64()))

    def _build_index(self, types: tuple[str, ...]) -> dict[Key, int]:
        """Return the positions of the rows by their keys, compared in these types; rows with a null have none."""
        index: dict[Key, int] = {}
        for position, key in enumerate(zip(*map(_list_values, self._columns, types), strict=True)):
            if None not in key and index.setdefault(key, position) != position:
                found = [column[position].as_py() for column in self._columns]
                raise RunError(describe_repeated_key(self._dataset, self._keys, [*map(_format_value, found)]))
        self._indexes[types] = index
        return index


def _list_values(column: pa.ChunkedArray, type_: str) -> list[Any]:
    """Return the values of a column as Python compares them, equal where Spark holds them to be equal."""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())  # Python has not all the years
    values = column.to_pylist()
    return values if type_ != "double" else [None if value is None else _to_double(value) for value in values]


def _to_double(value: Any) -> object:
    number = float(value)
    return _NAN if math.isnan(number) else number


def _format_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
