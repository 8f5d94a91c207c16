"""The first rows of each step: kept by the tasks while they make them, put together in the driver, shown to people."""

from __future__ import annotations

import sys
from bisect import insort
from collections.abc import Iterable
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any

from pipelines.extract.rows import Ordinal, Row
from pipelines.language.json_values import PREVIEW_LENGTH, to_json

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
        cells = {**row.get_engine_values(), **row.values}
        insort(
            self._rows,
            (row.ordinal, {name: to_json(value, PREVIEW_LENGTH) for name, value in cells.items()}),
            key=_place,
        )
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
