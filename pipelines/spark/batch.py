"""Rows that wait for others, for stages whose work costs less on several at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from pipelines.registry import Batched
from pipelines.rows import Row

_ROWS = 64
_PAGE_BYTES = 1024 * 1024  # a row that waits holds its page
_SECONDS = 1.0  # then what a slow site gives is passed on too


class Batch:
    """Gives each row with what it becomes to `take`, in order; the last ones at `flush`."""

    def __init__(self, work: Batched, take: Callable[[Row, Iterable[Row]], None]) -> None:
        self._work = work
        self._take = take
        self._rows: list[Row] = []
        self._page_bytes = 0
        self._since = 0.0

    def add(self, row: Row) -> None:
        now = time.monotonic()
        self._since = self._since if self._rows else now
        self._rows.append(row)
        self._page_bytes += len(row.fetched.page.body) if row.fetched.page else 0
        if len(self._rows) >= _ROWS or self._page_bytes >= _PAGE_BYTES or now - self._since >= _SECONDS:
            self.flush()

    def flush(self) -> None:
        rows, self._rows, self._page_bytes = self._rows, [], 0
        for row, made in zip(rows, self._work.rows(rows), strict=True):
            self._take(row, made)
