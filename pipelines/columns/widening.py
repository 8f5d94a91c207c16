"""Wider types: one that holds the values of two others, with the fields of both."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pipelines.columns.types import UnknownType, format_type, parse_type

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_EXACT_BITS = {pa.float32(): 24, pa.float64(): 53}  # of whole numbers that each value has
_MAX_DIGITS = 38


def widen_type(existing: str, given: str, scales: bool = True) -> str | None:
    """Return the Spark SQL type of a column that gets values of another type; None where no type holds both.

    The existing type stays where it holds the given one. It becomes wider within its kind only: integers, floating
    point numbers, decimals (with more digits after the point only if `scales`), and structs with more fields.
    """
    if existing == given:
        return existing
    try:
        before, added = parse_type(existing), parse_type(given)
    except UnknownType:
        return None
    widened = _widen(before, added, scales)
    if widened is None:
        return None
    if widened == before:
        return existing
    return given if widened == added else format_type(widened)


def adds_fields_only(existing: str, widened: str) -> bool:
    """Return whether values of a type are stored as before in a wider one, whose structs may have more fields."""
    return existing == widened or _keeps(parse_type(existing), parse_type(widened))


def _widen(existing: pa.DataType, given: pa.DataType, scales: bool) -> pa.DataType | None:
    if existing == given or pa.types.is_null(given):
        return existing
    if existing in _INTEGERS and given in _INTEGERS:
        return max(existing, given, key=_INTEGERS.index)
    if existing in _EXACT_BITS:
        if given in _EXACT_BITS:
            return pa.float64()
        return existing if given in _INTEGERS and given.bit_width <= _EXACT_BITS[existing] else None
    if pa.types.is_decimal(existing) and pa.types.is_decimal(given):
        scale = max(existing.scale, given.scale)
        digits = max(existing.precision - existing.scale, given.precision - given.scale) + scale
        return pa.decimal128(digits, scale) if digits <= _MAX_DIGITS and (scales or scale == existing.scale) else None
    if pa.types.is_list(existing) and pa.types.is_list(given):
        item = _widen(existing.value_type, given.value_type, scales)
        return None if item is None else pa.list_(pa.field("element", item))
    if pa.types.is_map(existing) and pa.types.is_map(given) and existing.key_type == given.key_type:
        item = _widen(existing.item_type, given.item_type, scales)
        return None if item is None else pa.map_(existing.key_type, item)
    if pa.types.is_struct(existing) and pa.types.is_struct(given):
        return _widen_struct(existing, given, scales)
    return None


def _widen_struct(existing: pa.DataType, given: pa.DataType, scales: bool) -> pa.DataType | None:
    """Return a struct with the existing fields, which stay the first ones, and the others of the given struct."""
    added = {field.name.casefold(): field for field in _list_fields(given)}
    fields: list[pa.Field] = []
    for field in _list_fields(existing):
        other = added.pop(field.name.casefold(), field)
        type_ = _widen(field.type, other.type, scales)
        if type_ is None:
            return None
        fields.append(pa.field(field.name, type_))
    return pa.struct([*fields, *added.values()])


def _keeps(existing: pa.DataType, widened: pa.DataType) -> bool:
    if pa.types.is_list(existing):
        return _keeps(existing.value_type, widened.value_type)
    if pa.types.is_map(existing):
        return _keeps(existing.item_type, widened.item_type)
    if pa.types.is_struct(existing):
        return all(_keeps(before.type, after.type) for before, after in zip(existing, widened, strict=False))
    return existing == widened


def _list_fields(struct: pa.DataType) -> Sequence[pa.Field]:
    return [struct.field(position) for position in range(struct.num_fields)]
