"""Serialization of values between a worker and a sandbox: JSON, since a pickle could run code.

Both sides import this module, so it imports the standard library only.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, cast

_TAG = "$"
_DEEPEST = 50  # levels of lists and maps; a thousand would exceed the recursion limit
_TEXT = {str}
_SINGLE = {str, int, float, bool, type(None), datetime, date, bytes, Decimal}


def dumps(value: Any) -> str:
    """Encode a value; raise TypeError or ValueError for a value that fits in no column."""
    return _encoder.encode(value if _is_plain(value) else _convert_plain(value))


def loads(text: str | bytes) -> Any:
    """Decode a value; raise ValueError or RecursionError unless `dumps` can have written it."""
    text = text if isinstance(text, str) else text.decode()
    value = _decoder.decode(text)
    if text.count("[") + text.count("{") > _DEEPEST:
        _check_depth(value)
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_DEEPEST + 1):
        level = [inner for each in level for inner in _iter_children(each)]
    if level:
        raise ValueError("nested too deep")


def _iter_children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast(dict[str, Any], value).values()
    return cast(list[Any], value) if isinstance(value, list) else ()


def _is_plain(value: Any) -> bool:
    """Return whether JSON can encode `value` without a copy, as it nearly always can; the check is faster than one."""
    kind = type(value)
    if kind is dict:
        return _TAG not in value and {*map(type, value)} <= _TEXT and _are_plain(value.values())
    return kind in _SINGLE or (kind in (list, tuple) and _are_plain(value))


def _are_plain(all_: Collection[Any]) -> bool:
    return {*map(type, all_)} <= _SINGLE or all(map(_is_plain, all_))


def _convert_plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, dict):
        plain = {_check_key(key): _convert_plain(each) for key, each in cast(dict[Any, Any], value).items()}
        return {_TAG: "dict", "of": plain} if _TAG in plain else plain
    if isinstance(value, list | tuple | set | frozenset):
        return [_convert_plain(each) for each in cast(list[Any], value)]
    if isinstance(value, datetime):
        return {_TAG: "datetime", "of": value.isoformat()}
    if isinstance(value, date):
        return {_TAG: "date", "of": value.isoformat()}
    if isinstance(value, bytes | bytearray):
        return {_TAG: "bytes", "of": base64.b64encode(value).decode()}
    if isinstance(value, Decimal):
        return {_TAG: "decimal", "of": str(value)}
    raise TypeError(f"a {type(value).__name__} fits in no column")


def _check_key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a column's name is text, not {key!r}")
    return key


def _check_map(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):  # a list of pairs would make one too, with any keys
        raise TypeError
    return cast(dict[str, Any], found)


def _decode_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_READERS: dict[str, Callable[[Any], Any]] = {
    "dict": _check_map,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "bytes": _decode_bytes,
    "decimal": Decimal,
}


def _decode_value(found: dict[str, Any]) -> Any:
    if _TAG not in found:
        return found
    reader = _READERS.get(str(found[_TAG]))
    if reader is None or found.keys() != {_TAG, "of"}:
        return found
    try:
        return reader(found["of"])
    except (TypeError, ArithmeticError) as error:
        raise ValueError("not a value") from error


_encoder = json.JSONEncoder(
    check_circular=False, default=_convert_plain
)  # circular values have raised a RecursionError before
_decoder = json.JSONDecoder(object_hook=_decode_value)
