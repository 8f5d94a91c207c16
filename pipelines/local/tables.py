"""Operations on whole Arrow tables of rows: their order, the exchange of links, columns, and equal rows."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute
import xxhash

from pipelines.columns.appending import FittedColumn
from pipelines.columns.types import parse_type
from pipelines.engine.record_batches import LINK, OPEN, WITHOUT_VALUES
from pipelines.errors import RunError
from pipelines.language.columns import Columns, list_own_columns

pc: Any = pyarrow.compute  # its functions are made when it is imported
_NAN = object()  # equal to itself, as NaN is in Spark


def sort_rows(rows: pa.Table) -> pa.Table:
    """Return the rows in document order."""
    if _are_numbered(rows.column("_ordinal")):
        return rows
    ordinals = rows.column("_ordinal").to_pylist()
    if all(before <= after for before, after in pairwise(ordinals)):
        return rows
    return take_rows(rows, sorted(range(rows.num_rows), key=ordinals.__getitem__))


def _are_numbered(ordinals: pa.ChunkedArray) -> bool:
    """Return whether ordinals are single numbers that do not fall, which Arrow sees faster than Python."""
    numbers, lengths = pc.list_flatten(ordinals), pc.list_value_length(ordinals)
    if len(numbers) != len(ordinals) or not pc.all(pc.equal(lengths, 1), min_count=0).as_py():
        return False
    return pc.all(pc.less_equal(numbers[:-1], numbers[1:]), min_count=0).as_py()


def sort_by_columns(rows: pa.Table, keys: Sequence[tuple[str, bool]]) -> pa.Table:
    """Return the rows in document order sorted by columns, each with whether it descends; equal rows keep their order.

    As in Spark, null is the smallest value, NaN the largest, and text is compared by its UTF-8 bytes.
    """
    positions = [*range(rows.num_rows)]
    for name, descends in reversed(keys):
        ranks = list_sort_keys(rows.column(find_column(rows.column_names, name)))
        positions.sort(key=ranks.__getitem__, reverse=descends)
    ordinals = pa.array([[each] for each in range(rows.num_rows)], pa.list_(pa.int64()))
    return take_rows(rows, positions).drop_columns(["_ordinal"]).append_column("_ordinal", ordinals)


def list_sort_keys(column: pa.ChunkedArray) -> list[tuple[int, Any]]:
    """Return values to compare in place of the column's; texts of lists and objects, which have no order."""
    if pa.types.is_nested(column.type):
        return [(1, repr(value)) for value in column.to_pylist()]
    column = _number_times(column)
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    return [
        (0, 0) if value is None else (2, 0) if isinstance(value, float) and math.isnan(value) else (1, value)
        for value in column.to_pylist()
    ]


def _number_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return dates and times as numbers, since Python has not all the years."""
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def take_first(rows: pa.Table, number: int, after: pa.Table | None = None) -> pa.Table:
    """Return the first rows in document order, of those that follow the rows `after`."""
    ordered = sort_rows(rows)
    last = max(after.column("_ordinal").to_pylist(), default=[]) if after is not None else []
    begin = bisect_right(ordered.column("_ordinal").to_pylist(), last) if last else 0
    return ordered.slice(begin, number)


def leave_out_failures(rows: pa.Table) -> pa.Table:
    """Return the rows without those that have an error and no value in any column of their own."""
    if OPEN not in rows.column_names and not list_own_columns(rows.column_names):
        return rows
    fails = mark_failures(rows)
    return take_rows(rows, [position for position, each in enumerate(fails) if not each]) if any(fails) else rows


def mark_failures(rows: pa.Table) -> list[bool]:
    """Return by row whether it has an error, and nulls in all public columns."""
    if "_error" not in rows.column_names:
        return [False] * rows.num_rows
    names = list_own_columns(rows.column_names)
    cells = [rows.column("_error").is_valid(), *(rows.column(name).is_null() for name in names)]
    if OPEN in rows.column_names:
        cells.append(pc.match_substring_regex(rows.column(OPEN), WITHOUT_VALUES).fill_null(True))
    return [all(row) for row in zip(*(each.to_pylist() for each in cells), strict=True)]


def exchange_links(links: pa.Table) -> pa.Table:
    """Return the links with equal ones as neighbours, in document order; the hash mixes the pages of hosts."""
    ordinals: list[list[int] | None] = links.column("_ordinal").to_pylist()
    urls: list[str | None] = links.column(LINK).to_pylist()

    def get_key(position: int) -> tuple[int, str, list[int]]:
        url, ordinal = urls[position], ordinals[position] or []
        return xxhash.xxh64_intdigest((url or str(ordinal)).encode()), url or "", ordinal

    return take_rows(links, sorted(range(links.num_rows), key=get_key))


def rename_column(rows: pa.Table, name: str, new: str) -> pa.Table:
    return rows.rename_columns([new if each == name else each for each in rows.column_names])


def select_columns(rows: pa.Table, columns: Columns) -> pa.Table:
    """Return these columns of the rows; null for a missing column."""
    present = {*rows.column_names}
    arrays = [
        rows.column(name) if name in present else pa.nulls(rows.num_rows, parse_type(type_))
        for name, type_ in columns.types
    ]
    return pa.table(arrays, names=[*columns])


def select_fitted(rows: pa.Table, columns: Iterable[FittedColumn]) -> pa.Table:
    """Return the rows with the names and types of existing columns."""
    fitted = [(each.existing, _convert(rows.column(each.name), parse_type(each.type))) for each in columns]
    return pa.table([values for _, values in fitted], names=[name for name, _ in fitted])


def _convert(values: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Return values in another type, in which structs have fields by name without case, null where they lack them."""
    if values.type == wanted or not pa.types.is_nested(wanted):
        return values.cast(wanted)
    return pa.chunked_array([_convert_nested(chunk, wanted) for chunk in values.chunks], wanted)


def _convert_nested(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_struct(values.type) and pa.types.is_struct(wanted):
        own = {field.name.casefold(): at for at, field in enumerate(values.type)}
        fields = [
            _convert_nested(values.field(own[name]), field.type) if name in own else pa.nulls(len(values), field.type)
            for field in wanted
            for name in (field.name.casefold(),)
        ]
        return pa.StructArray.from_arrays(fields, fields=[*wanted], mask=values.is_null())
    if pa.types.is_list(values.type) and pa.types.is_list(wanted):
        ends = pc.cumulative_sum(pc.list_value_length(values).fill_null(0))
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])
        items = _convert_nested(values.flatten(), wanted.value_type)
        return pa.ListArray.from_arrays(offsets, items, wanted, mask=values.is_null())
    return values.cast(wanted)


def name_void(rows: pa.Table) -> pa.Table:
    """Return the rows with columns of nulls only as text: later rows may have a value."""
    schema = pa.schema([(each.name, pa.string() if pa.types.is_null(each.type) else each.type) for each in rows.schema])
    return rows.cast(schema)


def find_column(names: Sequence[str], wanted: str) -> str:
    """Return the name of a column, whose case SQL ignores; raise RunError."""
    found = wanted if wanted in names else next((each for each in names if each.casefold() == wanted.casefold()), None)
    if found is None:
        raise RunError(f"there is no column '{wanted}'")
    return found


def drop_repeated_rows(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the first of all rows that are equal in the columns; as in Spark, NaN is equal to itself."""
    columns = [list_comparable_values(rows.column(find_column(rows.column_names, key))) for key in keys]
    first: dict[tuple[Any, ...], int] = {}
    for position, values in enumerate(zip(*columns, strict=True) if columns else [()] * rows.num_rows):
        first.setdefault(values, position)
    return take_rows(rows, [*first.values()])


def take_rows(rows: pa.Table, positions: Sequence[int]) -> pa.Table:
    """Return the rows at these positions."""
    return rows.take(pa.array(positions, pa.int64()))  # of no positions, Arrow would not know the type


def list_comparable_values(column: pa.ChunkedArray) -> list[Any]:
    """Return hashable values in place of the column's, which are equal where Spark holds these to be equal."""
    convert = _build_conversion(column.type)
    return [None if value is None else convert(value) for value in _number_times(column).to_pylist()]


def _build_conversion(type_: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_floating(type_):
        return lambda value: _NAN if math.isnan(value) else value
    if pa.types.is_list(type_):
        item = _build_conversion(type_.value_type)
        return lambda values: tuple(None if each is None else item(each) for each in values)
    if pa.types.is_map(type_):
        item = _build_conversion(type_.item_type)
        return lambda pairs: tuple((key, None if each is None else item(each)) for key, each in pairs)
    if pa.types.is_struct(type_):
        fields = [(field.name, _build_conversion(field.type)) for field in type_]
        return lambda value: tuple(None if (each := value[name]) is None else convert(each) for name, convert in fields)
    return lambda value: value
