"""Counting in the workers: rows, pages and errors of each step, sent to the driver while a pass runs."""

from __future__ import annotations

import time
from dataclasses import dataclass

import xxhash

from pipelines.coordination.client import Connection
from pipelines.coordination.messages import Report
from pipelines.extract.rows import Fetched, Row
from pipelines.fetch import Page
from pipelines.spark.preview import FirstRows

_EVERY_SECONDS = 0.5
_SAMPLES = 5


@dataclass(slots=True, eq=False)
class Step:
    """What one task counts of a step; `errors` are of pages, and of rows that a stage could not make."""

    first: FirstRows
    rows: int = 0
    pages: int = 0
    errors: int = 0
    bytes: int = 0

    def row(self, row: Row) -> None:
        self.rows += 1
        if row.ordinal < self.first.end:
            self.first.keep(row)


class Reporter:
    """Counts of one task and the first `preview_rows` rows of its steps, sent over its connection."""

    def __init__(self, connection: Connection | None, preview_rows: int = 0) -> None:
        self._connection = connection
        self._preview_rows = preview_rows
        self._steps: dict[str, Step] = {}
        self._fetched: list[int] = []
        self._failed: list[int] = []
        self._forbidden: list[int] = []
        self._failures: list[tuple[str, str]] = []
        self._sent = time.monotonic()

    def step(self, key: str) -> Step:
        """The counts of a step, to be counted up."""
        return self._steps.setdefault(key, Step(FirstRows(self._preview_rows)))

    def page(self, step: Step, page: Page, fetched: Fetched) -> None:
        step.pages += 1
        step.bytes += page.received
        name = xxhash.xxh64_intdigest(page.requested_url.encode())
        if fetched.error is None:
            self._fetched.append(name)
        else:
            step.errors += 1
            (self._forbidden if page.forbidden else self._failed).append(name)
            if len(self._failures) < _SAMPLES:
                self._failures.append((page.requested_url, fetched.error))
        self.tick()

    def tick(self) -> None:
        """Sends what was counted, at most twice a second."""
        if time.monotonic() - self._sent >= _EVERY_SECONDS:
            self._send()

    def close(self) -> None:
        """Sends the rest and waits until the driver has it, so that it knows all before the pass ends."""
        self._send()
        if self._connection:
            self._connection.finish()

    def _send(self) -> None:
        self._sent = time.monotonic()
        if not self._connection:
            return
        steps = self._steps.items()
        report = Report(
            rows={key: step.rows for key, step in steps if step.rows},
            pages={key: step.pages for key, step in steps if step.pages},
            errors={key: step.errors for key, step in steps if step.errors},
            bytes={key: step.bytes for key, step in steps if step.pages},
            fetched=self._fetched,
            failed=self._failed,
            forbidden=self._forbidden,
            failures=self._failures,
            previews={key: rows for key, step in steps if (rows := step.first.news())},
        )
        self._fetched, self._failed, self._forbidden = [], [], []
        self._connection.send(report)
