"""Rows that wait for others, for stages whose work costs less on several at once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from pipelines.extract.rows import Row
from pipelines.planning.stage import BatchWorker

_ROWS = 64
_PAGE_BYTES = 1024 * 1024  # a row that waits holds its page
_SECONDS = 1.0  # then what a slow site gives is passed on too
_LONGEST = 0.5  # seconds of work after which the pages in flight are looked after again


class Batch:
    """Gives each row with what it becomes to `take`, in order; the last ones at `flush`.

    As many are worked on at once as take little time, one at first: meanwhile nobody sees to the pages in flight.
    """

    def __init__(
        self, work: BatchWorker, take: Callable[[Row, Iterable[Row]], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._work = work
        self._take = take
        self._clock = clock
        self._rows: deque[Row] = deque()
        self._page_bytes = 0
        self._since = 0.0
        self._at_once = 1
        self._lot: Iterator[tuple[Row, Iterable[Row]]] = iter(())  # rows that were given, of which `_given` are to come
        self._given = 0

    def add(self, row: Row) -> None:
        now = self._clock()
        self._since = self._since if self._rows else now
        self._rows.append(row)
        self._page_bytes += _page_bytes(row)
        if len(self._rows) >= self._at_once or now - self._since >= _SECONDS:
            self._work_off()
        while self._page_bytes >= _PAGE_BYTES:
            self._work_off()

    def flush(self) -> None:
        while self._rows:
            self._work_off()

    def _work_off(self) -> None:
        """The first rows, as many as go at once; where they take too long, the next call goes on with the others."""
        if not self._given:
            rows = list(islice(self._rows, self._at_once))
            self._lot, self._given = zip(rows, self._work.process(rows), strict=True), len(rows)
        began, took, done = self._clock(), 0.0, 0
        for row, made in self._lot:
            self._given -= 1
            self._rows.popleft()
            self._page_bytes -= _page_bytes(row)
            self._take(row, made)
            took, done = self._clock() - began, done + 1
            if took > _LONGEST:
                break
        if took > _LONGEST:
            self._at_once = max(1, done // 2)
        elif took < _LONGEST / 4:
            self._at_once = min(_ROWS, 2 * self._at_once)


def _page_bytes(row: Row) -> int:
    return len(row.fetched.page.body) if row.fetched.page else 0
