"""Values of columns as JSON, in full or shortened for a preview."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from datetime import date, datetime, time
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any

from pipelines.language.names import ELLIPSIS, truncate

if TYPE_CHECKING:
    import pyarrow as pa

PREVIEW_LENGTH = 200  # characters of a value
_LONGEST_LIST = 20  # entries, also of a map or struct
_MOST_ENTRIES = 400  # of a value, including all nested ones
_DEEPEST = 20  # levels of lists, maps and structs


def list_records(rows: pa.Table, cut: int | None = None) -> list[dict[str, Any]]:
    """Return the rows as JSON values, in their order; texts longer than `cut` characters and long lists are cut."""
    return [{name: to_json(value, cut) for name, value in row.items()} for row in rows.to_pylist()]


def to_json(value: Any, cut: int | None) -> Any:
    """Convert a value to JSON; with `cut`, shorten texts to that many characters and limit lists, maps and structs.

    A shortened value shows only the size of binary data: part of a picture is useless, and could hide a secret.
    """
    return _to_json(value, cut, repeat(0) if cut is None else iter(range(_MOST_ENTRIES)), 0)


def _to_json(value: Any, cut: int | None, left: Iterator[int], depth: int) -> Any:
    """Convert a nested value; each entry takes one item of `left`, and the rest is dropped when that is exhausted."""
    if isinstance(value, str):
        return _truncate(value, cut)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode() if cut is None else f"<{len(value):,} bytes>"
    if isinstance(value, dict | list):
        return ELLIPSIS if cut is not None and depth == _DEEPEST else _convert_entries(value, cut, left, depth + 1)
    return value if value is None or isinstance(value, bool | int) else _truncate(str(value), cut)


def _convert_entries(values: dict[Any, Any] | list[Any], cut: int | None, left: Iterator[int], depth: int) -> Any:
    """Convert a list to a list, and a map or struct to an object.

    Arrow returns a map as pairs and a struct as a dict, while stages return maps as dicts. The two cannot be
    distinguished, so structs are limited like maps.
    """
    most = None if cut is None else _LONGEST_LIST
    if isinstance(values, dict) or (values and all(isinstance(each, tuple) for each in values[:most])):
        pairs = islice(values.items() if isinstance(values, dict) else values, most)
        return {
            _truncate(str(key), cut): _to_json(each, cut, left, depth)
            for (key, each), _ in zip(pairs, left, strict=False)
        }
    return [_to_json(each, cut, left, depth) for each, _ in zip(values[:most], left, strict=False)]


def _truncate(text: str, cut: int | None) -> str:
    return text if cut is None else truncate(text, cut)
