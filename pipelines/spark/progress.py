"""Counting in the workers: rows, pages and errors of each step, sent to the driver while a pass runs."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass

import xxhash

from pipelines.fetch import Page
from pipelines.rows import Fetched

_EVERY_SECONDS = 0.5
_SAMPLES = 5


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the driver's coordinator listens, and the secret that lets a worker speak to it."""

    host: str
    port: int
    token: str


class Reporter:
    """Counts of one task. A driver that no longer listens is no reason to fail: it has what it needed."""

    def __init__(self, endpoint: Endpoint | None, task: str) -> None:
        self._task = task
        self._token = endpoint.token if endpoint else ""
        self._socket = _connect(endpoint)
        self._rows: dict[str, int] = {}
        self._pages: dict[str, int] = {}
        self._errors: dict[str, int] = {}
        self._bytes: dict[str, int] = {}
        self._urls: list[tuple[int, bool]] = []
        self._failures: list[tuple[str, str]] = []
        self._sent = time.monotonic()

    def row(self, key: str) -> None:
        self._rows[key] = self._rows.get(key, 0) + 1

    def page(self, key: str, page: Page, fetched: Fetched) -> None:
        self._pages[key] = self._pages.get(key, 0) + 1
        self._bytes[key] = self._bytes.get(key, 0) + page.received
        url = fetched.requested_url or ""
        self._urls.append((xxhash.xxh64_intdigest(url.encode()), fetched.error is None))
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
        if self._socket:
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.recv(1)
            self._socket.close()

    def _send(self) -> None:
        self._sent = time.monotonic()
        if not self._socket:
            return
        message = {
            "token": self._token,
            "task": self._task,
            "rows": self._rows,
            "pages": self._pages,
            "errors": self._errors,
            "bytes": self._bytes,
            "urls": self._urls,
            "failures": self._failures,
        }
        self._urls = []
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._socket = None


def _connect(endpoint: Endpoint | None) -> socket.socket | None:
    try:
        return socket.create_connection((endpoint.host, endpoint.port), timeout=10) if endpoint else None
    except OSError:
        return None
