"""A small server in the driver that workers report to while a pass runs, so that progress shows live."""

from __future__ import annotations

import hmac
import json
import secrets
import socketserver
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from pipelines.spark.progress import Endpoint


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one step so far; `bytes` of bodies as transferred, `seconds` between its first and its last sign of life."""

    rows: int = 0
    pages: int = 0
    errors: int = 0
    bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Fetches:
    """Distinct URLs asked for and failed (never answered well), with a few failures told: (URL, reason)."""

    urls: int
    failed: int
    examples: tuple[tuple[str, str], ...]


class Coordinator:
    """Collects the counts of all tasks; a task that runs again replaces what its first attempt counted."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._lock = threading.Lock()
        self._tasks: dict[str, dict[str, Any]] = {}
        self._seen: dict[str, tuple[float, float]] = {}
        self._urls: dict[int, bool] = {}
        self._token = secrets.token_hex(16)
        self._server = _Server((host, 0), self._receive)
        self.endpoint = Endpoint(host, self._server.server_address[1], self._token)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="coordinator", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def counts(self) -> dict[str, Counts]:
        """Counts by step key, of the steps that have begun."""
        with self._lock:
            return {key: self._counts(key, *times) for key, times in self._seen.items()}

    def fetches(self) -> Fetches:
        with self._lock:
            failed = sum(not ok for ok in self._urls.values())
            examples = [(url, reason) for task in self._tasks.values() for url, reason in task["failures"]]
            return Fetches(len(self._urls), failed, tuple(examples[:3]))

    def _counts(self, key: str, first: float, last: float) -> Counts:
        rows, pages, errors, received = (
            sum(task[what].get(key, 0) for task in self._tasks.values())
            for what in ("rows", "pages", "errors", "bytes")
        )
        return Counts(rows, pages, errors, received, last - first)

    def _receive(self, line: bytes) -> bool:
        """Takes one message; False when it does not carry the token."""
        message = json.loads(line)
        if not hmac.compare_digest(str(message.get("token")), self._token):
            return False
        now = time.monotonic()
        with self._lock:
            self._tasks[message["task"]] = message
            for url, ok in message.pop("urls"):
                self._urls[url] = ok or self._urls.get(url, False)
            for key in {**message["rows"], **message["pages"]}:
                self._seen[key] = (self._seen.get(key, (now, now))[0], now)
        return True


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], receive: Any) -> None:
        self.receive = receive
        super().__init__(address, _Handler)


class _Handler(socketserver.StreamRequestHandler):
    server: _Server  # type: ignore[assignment]

    def handle(self) -> None:
        for line in self.rfile:
            if not self.server.receive(line):
                return
        self.wfile.write(b".")
