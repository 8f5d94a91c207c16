"""Conversion of values to JSON by the types of their columns.

Decimals keep all their digits, infinities and NaN are Trino's texts, times are ISO 8601 with their zone, binary is
base64. Query processes import this module, so it imports nothing of the service.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from struct import pack
from typing import Any, cast
from uuid import UUID

from msgspec import Raw

Converter = Callable[[Any], Any]
EXACT = ("bigint", "decimal")  # types of numbers that JSON readers with doubles only cannot hold


@dataclass(frozen=True, slots=True)
class ValueType:
    """A type as far as JSON depends on it: `name` is Trino's; an array, a map or a row has the types of its parts."""

    name: str
    parts: tuple[ValueType, ...] = ()


def describe_duckdb_type(type: Any) -> ValueType:
    """Return the type of a column of DuckDB."""
    match type.id:
        case "float":
            return ValueType("real")
        case "bigint" | "hugeint" | "ubigint" | "uhugeint":
            return ValueType("bigint")
        case "list" | "array":
            return ValueType("array", (describe_duckdb_type(type.children[0][1]),))
        case "map":
            return ValueType("map", tuple(describe_duckdb_type(part) for _, part in type.children))
        case "struct":
            return ValueType("row", tuple(describe_duckdb_type(part) for _, part in type.children))
        case name:
            return ValueType(name)


def make_converter(type: ValueType, exact_numbers: bool = False) -> Converter:
    """Return the function that makes JSON values of a column's values.

    With `exact_numbers` all values of bigint and decimal are text.
    """
    if exact_numbers and type.name in EXACT:
        return _skip_null(_write_number)
    match type.name:
        case "real":
            return _skip_null(_convert_real)
        case "array":
            return _skip_null(_make_array_converter(make_converter(type.parts[0], exact_numbers)))
        case "map":
            key, value = type.parts[0], make_converter(type.parts[1], exact_numbers)
            return _skip_null(_make_map_converter(_make_key_converter(key), value))
        case "row":
            return _skip_null(_make_row_converter([make_converter(part, exact_numbers) for part in type.parts]))
        case _:
            return convert


def convert(value: Any) -> Any:
    """Return the JSON value of a value whose class says all about it."""
    converter = CONVERTERS.get(value.__class__)
    return value if converter is None else converter(value)


def _skip_null(converter: Converter) -> Converter:
    return lambda value: None if value is None else converter(value)


def _make_array_converter(item: Converter) -> Converter:
    return lambda value: [item(each) for each in value]


def _make_map_converter(key: Converter, value: Converter) -> Converter:
    return lambda pairs: {key(name): value(each) for name, each in _list_pairs(pairs)}


def _make_row_converter(fields: Sequence[Converter]) -> Converter:
    """Return the converter of rows: objects of their fields, or tuples without names."""

    def convert_row(value: Any) -> Any:
        if isinstance(value, dict):
            named = cast(dict[str, Any], value)
            return {name: field(each) for field, (name, each) in zip(fields, named.items(), strict=True)}
        return [field(each) for field, each in zip(fields, value, strict=True)]

    return convert_row


def _make_key_converter(type: ValueType) -> Converter:
    to_json = make_converter(type, exact_numbers=True)
    return lambda key: key if isinstance(key, str) else str(to_json(key))


def _list_pairs(value: Any) -> Any:
    """Return the pairs of a map, which pyarrow gives as a list."""
    return cast(dict[Any, Any], value).items() if isinstance(value, dict) else value


def _write_number(value: int | Decimal) -> str:
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _write_decimal(value: Decimal) -> Raw:
    """Return a JSON number with all digits of the decimal."""
    return Raw(f"{value:f}".encode())


def _convert_double(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _convert_real(value: float) -> float | str:
    """Return a number of single precision with the fewest digits that tell it: 0.1 and not 0.10000000149011612."""
    if not math.isfinite(value):
        return _convert_double(value)
    packed = pack("f", value)
    return next(short for digits in range(1, 18) if pack("f", short := float(f"{value:.{digits}g}")) == packed)


def _convert_datetime(value: datetime) -> str:
    if value.tzinfo is None or value.utcoffset():
        return value.isoformat()
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def _convert_list(value: list[Any] | tuple[Any, ...]) -> list[Any]:
    return [convert(item) for item in value]


def _convert_dict(value: dict[Any, Any]) -> dict[str, Any]:
    return {key if isinstance(key, str) else str(convert(key)): convert(item) for key, item in value.items()}


CONVERTERS: dict[type, Converter] = {
    float: _convert_double,
    Decimal: _write_decimal,
    bytes: lambda value: b64encode(value).decode(),
    datetime: _convert_datetime,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: lambda value: f"PT{value.total_seconds():g}S",
    UUID: str,
    list: _convert_list,
    tuple: _convert_list,
    dict: _convert_dict,
}
