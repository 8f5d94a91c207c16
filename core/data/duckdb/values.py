"""Conversion of DuckDB's values to JSON: ISO 8601 dates, base64 for binary, null for NaN and infinities."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from struct import pack
from typing import Any, cast
from uuid import UUID

MAX_EXACT = 2**53  # larger integers lose digits in JSON readers that have doubles only


def convert(value: Any) -> Any:
    """Return a JSON value; numbers stay numbers."""
    converter = CONVERTERS.get(value.__class__)
    return value if converter is None else converter(value)


def convert_exactly(value: Any) -> Any:
    """Return a JSON value with integers beyond 2^53 and decimals as strings."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, int) and abs(value) > MAX_EXACT:
        return str(value)
    if isinstance(value, list | tuple):
        return [convert_exactly(item) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {_convert_key(key): convert_exactly(item) for key, item in cast(dict[Any, Any], value).items()}
    return convert(value)


def convert_real(value: float | None) -> float | None:
    """Return a number of single precision with the fewest digits that tell it: 0.1 and not 0.10000000149011612."""
    if value is None or not math.isfinite(value):
        return None
    packed = pack("f", value)
    return next(short for digits in range(1, 18) if pack("f", short := float(f"{value:.{digits}g}")) == packed)


def _convert_datetime(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def _convert_list(value: list[Any] | tuple[Any, ...]) -> list[Any]:
    return [convert(item) for item in value]


def _convert_dict(value: dict[Any, Any]) -> dict[str, Any]:
    return {_convert_key(key): convert(item) for key, item in value.items()}


def _convert_key(key: Any) -> str:
    return key if isinstance(key, str) else str(convert(key))


CONVERTERS: dict[type, Callable[[Any], Any]] = {
    float: lambda value: value if math.isfinite(value) else None,
    Decimal: lambda value: float(value) if value.as_tuple().exponent else int(value),
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
