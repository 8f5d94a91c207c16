"""Rows whose answers are pending; they are taken again when answers arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from pipelines.errors import AnswerPending
from pipelines.extract.rows import Row

_MANY_ROWS = 200  # that wait: then the driver does not wait for samples of other tasks
_MOST_ROWS = 4000
_MOST_BYTES = 128 * 2**20  # of their pages


@runtime_checkable
class AnswerSource(Protocol):
    """A source of answers, for one thread; `answers` counts the answers so far."""

    answers: int

    def poll(self) -> None:
        """Take the answers that have arrived."""
        ...

    def hurry(self) -> None:
        """Get the answers of this task without waiting for other tasks."""
        ...

    def wait(self, urgent: bool = False) -> None:
        """Wait for the next answers; raise DriverGone."""
        ...


class DeferredRows:
    """Takes rows into a stage that asks; those whose answers are pending are taken again when answers arrive.

    `take` raises AnswerPending before it has any effect. Transfers go on, up to a bound on memory.
    """

    def __init__(self, source: AnswerSource, take: Callable[[Row], object]) -> None:
        self._source = source
        self._take = take
        self._rows: list[Row] = []
        self._bytes = 0
        self._seen = source.answers

    def add(self, row: Row) -> None:
        """Take a row, and those whose answers have arrived."""
        if self._rows:
            self._source.poll()
            self._retry()
        self._try(row)
        if self._rows and len(self._rows) % _MANY_ROWS == 0:
            self._source.hurry()
        while len(self._rows) >= _MOST_ROWS or self._bytes >= _MOST_BYTES:
            self._source.wait(urgent=True)
            self._retry()

    def flush(self) -> None:
        """Take all rows, and wait for their answers."""
        while self._rows:
            self._retry()
            if self._rows:
                self._source.wait()

    def _retry(self) -> None:
        if self._seen == self._source.answers:
            return
        self._seen, rows, self._rows, self._bytes = self._source.answers, self._rows, [], 0
        for row in rows:
            self._try(row)

    def _try(self, row: Row) -> None:
        try:
            self._take(row)
        except AnswerPending:
            self._rows.append(row)
            self._bytes += len(row.fetched.page.body) if row.fetched.page else 0
