"""The first rows of each step: kept by the tasks while they make them, put together in the driver, shown to people."""

from __future__ import annotations

import base64
import math
import sys
from bisect import insort
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from heapq import merge
from itertools import islice, repeat
from operator import itemgetter
from typing import Any

from pipelines.extract.rows import Ordinal, Row
from pipelines.language.names import ELLIPSIS, shortened

CUT = 200  # characters of a value
_LONGEST_LIST = 20  # entries, also of a map or struct
_MOST_ENTRIES = 400  # of a value, with all that are nested in it
_DEEPEST = 20  # lists, maps and structs within each other
_AFTER_ALL: Ordinal = (sys.maxsize,)

Placed = tuple[Ordinal, dict[str, Any]]
_place = itemgetter(0)


class FirstRows:
    """The first rows of a step in document order, at most `count`, as JSON can hold them; of one task.

    Rows from `end` on are none of them.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._rows: list[Placed] = []
        self._new = False
        self.end: Ordinal = _AFTER_ALL if count else ()

    def keep(self, row: Row) -> None:
        """Takes in a row that stands before `end`."""
        cells = {**row.engine_values(), **row.values}
        insort(self._rows, (row.ordinal, {name: as_json(value, CUT) for name, value in cells.items()}), key=_place)
        del self._rows[self._count :]
        if len(self._rows) == self._count:
            self.end = self._rows[-1][0]
        self._new = True

    def news(self) -> list[Placed]:
        """The rows, where others have become the first ones since the last call."""
        new, self._new = self._new, False
        return self._rows if new else []


def first(tasks: Iterable[Iterable[Placed]], count: int) -> list[dict[str, Any]]:
    """The first rows of all tasks."""
    return [row for _, row in islice(merge(*tasks, key=_place), count)]


def as_json(value: Any, cut: int | None) -> Any:
    """A value as JSON can hold it; texts longer than `cut` characters and then long lists, maps and structs are cut,
    and of bytes only their number is shown: part of a picture is none, and nobody would find what is secret in it.
    """
    return _json(value, cut, repeat(0) if cut is None else iter(range(_MOST_ENTRIES)), 0)


def _json(value: Any, cut: int | None, left: Iterator[int], depth: int) -> Any:
    """The same of what is nested so deep; it takes one of `left` for each entry, and stops where there is none."""
    if isinstance(value, str):
        return _text(value, cut)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode() if cut is None else f"<{len(value):,} bytes>"
    if isinstance(value, dict | list):
        return ELLIPSIS if cut is not None and depth == _DEEPEST else _nested(value, cut, left, depth + 1)
    return value if value is None or isinstance(value, bool | int) else _text(str(value), cut)


def _nested(values: dict[Any, Any] | list[Any], cut: int | None, left: Iterator[int], depth: int) -> Any:
    """A list, or an object of a map or struct.

    Arrow gives a map as pairs and a struct as a dict, but a stage gives its maps, which may be a page's, as dicts too:
    they cannot be told apart, and a struct is cut as a map is.
    """
    most = None if cut is None else _LONGEST_LIST
    if isinstance(values, dict) or (values and all(isinstance(each, tuple) for each in values[:most])):
        pairs = islice(values.items() if isinstance(values, dict) else values, most)
        return {
            _text(str(key), cut): _json(each, cut, left, depth) for (key, each), _ in zip(pairs, left, strict=False)
        }
    return [_json(each, cut, left, depth) for each, _ in zip(values[:most], left, strict=False)]


def _text(text: str, cut: int | None) -> str:
    return text if cut is None else shortened(text, cut)
