"""Columns of Parquet files in the types that are stored, and the losses by them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

import pyarrow as pa
import pyarrow.compute

from core.data.files.messages import RejectedFile

pc: Any = pyarrow.compute  # its functions are made when it is imported
_YEARS = {  # the first and the last value of the years 1 to 9999
    pa.timestamp("us"): (-62_135_596_800_000_000, 253_402_300_799_999_999),
    pa.timestamp("us", "UTC"): (-62_135_596_800_000_000, 253_402_300_799_999_999),
    pa.date32(): (-719_162, 2_932_896),
}


def is_number(type: Any) -> bool:
    return pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type)


def fit_column(column: Any, type: Any) -> Any:
    """Return numbers in another type of numbers, or nulls in any type; raise ArrowInvalid if that loses something."""
    if column.null_count == len(column):
        return pa.nulls(len(column), type)
    kinds = pa.types.is_integer, pa.types.is_decimal, pa.types.is_floating
    is_whole, is_decimal, is_floating = (is_kind(column.type) for is_kind in kinds)
    keeps = is_whole or (is_decimal and pa.types.is_decimal(type)) or (is_floating and pa.types.is_integer(type))
    if not is_number(type) or not (keeps or (column.type, type) == (pa.float32(), pa.float64())):
        raise pa.ArrowInvalid(f"{column.type} is not {type}")
    return pc.cast(column, type)


def convert_column(column: Any, type: Any, name: str, warnings: set[str]) -> Any:
    """Return the values in a stored type; add a warning for parts of seconds that are cut.

    Raises RejectedFile for values that the type does not have, such as times outside of the years 1 to 9999.
    """
    try:
        converted = _convert(column, type)
    except pa.ArrowNotImplementedError:
        sentence = f"The column '{name}' has the type {column.type}, which cannot be stored."
        raise RejectedFile("unsupported-format", sentence) from None
    except pa.ArrowInvalid as error:
        if "would lose data" not in str(error):
            raise _refuse_times(name) from None
        warnings.add(f"The column '{name}' has times with nanoseconds; they are cut to microseconds.")
        converted = pc.cast(column, type, safe=False)
    if type in _YEARS and len(converted) > converted.null_count:
        first, last = _YEARS[converted.type]
        bounds = pc.min_max(pc.cast(converted, pa.int32() if converted.type == pa.date32() else pa.int64())).as_py()
        if bounds["min"] < first or bounds["max"] > last:
            raise _refuse_times(name)
    return converted


def _convert(column: Any, type: Any) -> Any:
    if column.type == type:
        return column
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), type)])
    if _is_stored_as_text(column.type):
        return pa.chunked_array([pa.array(_write_texts(column.to_pylist()), type)])
    return pc.cast(column, type)


def _is_stored_as_text(type: Any) -> bool:
    """Return whether values become texts: UUIDs, which pyarrow does not cast, and durations, whose unit it drops."""
    if isinstance(type, pa.BaseExtensionType) or pa.types.is_duration(type):
        return True
    return pa.types.is_nested(type) and any(
        _is_stored_as_text(type.field(position).type) for position in range(type.num_fields)
    )


def _write_texts(value: Any) -> Any:
    match value:
        case UUID():
            return str(value)
        case timedelta():
            return f"PT{Decimal(value // timedelta(microseconds=1)).scaleb(-6).normalize():f}S"
        case list():
            return [_write_texts(each) for each in cast(list[Any], value)]
        case tuple():
            return tuple(_write_texts(each) for each in cast(tuple[Any, ...], value))
        case dict():
            return {name: _write_texts(each) for name, each in cast(dict[str, Any], value).items()}
        case _:
            return value


def _refuse_times(name: str) -> RejectedFile:
    return RejectedFile("invalid-file", f"The column '{name}' has times outside of the years 1 to 9999.")
