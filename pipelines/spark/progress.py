"""Counting in the workers: rows, pages and errors of each step, sent to the driver while a pass runs."""

from __future__ import annotations

import time

import xxhash

from pipelines.fetch import Page
from pipelines.rows import Fetched, Row
from pipelines.spark.channel import Channel
from pipelines.spark.preview import FirstRows

_EVERY_SECONDS = 0.5
_SAMPLES = 5


class Reporter:
    """Counts of one task and the first `shown_rows` rows of its steps, sent over its channel."""

    def __init__(self, channel: Channel | None, task: str, shown_rows: int = 0) -> None:
        self._channel = channel
        self._task = task
        self._rows: dict[str, int] = {}
        self._pages: dict[str, int] = {}
        self._errors: dict[str, int] = {}
        self._bytes: dict[str, int] = {}
        self._urls: list[tuple[int, bool]] = []
        self._forbidden: list[int] = []
        self._failures: list[tuple[str, str]] = []
        self._first = FirstRows(shown_rows)
        self._sent = time.monotonic()

    def row(self, key: str, row: Row) -> None:
        self._rows[key] = self._rows.get(key, 0) + 1
        self._first.see(key, row)

    def page(self, key: str, page: Page, fetched: Fetched) -> None:
        self._pages[key] = self._pages.get(key, 0) + 1
        self._bytes[key] = self._bytes.get(key, 0) + page.received
        url = fetched.requested_url or ""
        name = xxhash.xxh64_intdigest(url.encode())
        if page.forbidden:
            self._forbidden.append(name)
        else:
            self._urls.append((name, fetched.error is None))
        if fetched.error is not None:
            self._errors[key] = self._errors.get(key, 0) + 1
            if len(self._failures) < _SAMPLES:
                self._failures.append((url, fetched.error))
        self.tick()

    def error(self, key: str) -> None:
        """A row that a stage could not make."""
        self._errors[key] = self._errors.get(key, 0) + 1

    def tick(self) -> None:
        """Sends what was counted, at most twice a second."""
        if time.monotonic() - self._sent >= _EVERY_SECONDS:
            self._send()

    def close(self) -> None:
        """Sends the rest and waits until the driver has it, so that it knows all before the pass ends."""
        self._send()
        if self._channel:
            self._channel.finish()

    def _send(self) -> None:
        self._sent = time.monotonic()
        if not self._channel:
            return
        message = {
            "task": self._task,
            "rows": self._rows,
            "pages": self._pages,
            "errors": self._errors,
            "bytes": self._bytes,
            "urls": self._urls,
            "forbidden": self._forbidden,
            "failures": self._failures,
            "first": self._first.take(),
        }
        self._urls, self._forbidden = [], []
        self._channel.send(message)
