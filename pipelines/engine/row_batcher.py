"""Batches of rows for stages that process several rows at once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from pipelines.contract.workers import BatchWorker
from pipelines.extract.rows import Row

_ROWS = 64
_PAGE_BYTES = 1024 * 1024  # of the pages of buffered rows
_SECONDS = 1.0  # a slow site fills no batch
_BUDGET_SECONDS = 0.5  # of work in one call: transfers wait meanwhile


class RowBatcher:
    """Calls `take` for every row with its results, in order; `flush` processes the last rows.

    The batch size starts at one and grows while batches are fast, because transfers wait for the work. Over its time
    budget, a batch stops after the current row and continues in the next call.
    """

    def __init__(
        self,
        work: BatchWorker,
        take: Callable[[Row, Iterable[Row]], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._work = work
        self._take = take
        self._clock = clock
        self._rows: deque[Row] = deque()
        self._page_bytes = 0
        self._since = 0.0
        self._batch_size = 1
        self._results: Iterator[tuple[Row, Iterable[Row]]] = iter(())  # of the current batch, `_left` more
        self._left = 0

    def add(self, row: Row) -> None:
        now = self._clock()
        self._since = self._since if self._rows else now
        self._rows.append(row)
        self._page_bytes += _get_page_bytes(row)
        if len(self._rows) >= self._batch_size or now - self._since >= _SECONDS:
            self._process()
        while self._page_bytes >= _PAGE_BYTES:
            self._process()

    def flush(self) -> None:
        while self._rows:
            self._process()

    def _process(self) -> None:
        """Process a batch, or the rest of one, within the time budget."""
        if not self._left:
            rows = list(islice(self._rows, self._batch_size))
            self._results, self._left = zip(rows, self._work.process(rows), strict=True), len(rows)
        began, took, done = self._clock(), 0.0, 0
        for row, made in self._results:
            self._left -= 1
            self._rows.popleft()
            self._page_bytes -= _get_page_bytes(row)
            self._take(row, made)
            took, done = self._clock() - began, done + 1
            if took > _BUDGET_SECONDS:
                break
        if took > _BUDGET_SECONDS:
            self._batch_size = max(1, done // 2)
        elif took < _BUDGET_SECONDS / 4:
            self._batch_size = min(_ROWS, 2 * self._batch_size)


def _get_page_bytes(row: Row) -> int:
    return len(row.fetched.page.body) if row.fetched.page else 0
