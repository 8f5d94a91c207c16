"""A small server in the driver that tasks speak to while a pass runs: they report what they count, so that progress
shows live, and are told which hosts they may ask.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import socketserver
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from pipelines.coordination.budgets import Message
from pipelines.coordination.channel import Endpoint
from pipelines.coordination.sites import Sites
from pipelines.fetch import FetchOptions
from pipelines.spark.preview import Placed, first


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
    """Distinct URLs asked for and failed (never answered well), with a few failures told: (URL, reason); `forbidden`
    are those that were not asked for because their site does not let crawlers have them.
    """

    urls: int
    failed: int
    forbidden: int
    examples: tuple[tuple[str, str], ...]


class Coordinator:
    """Collects the counts of all tasks; a task that runs again replaces what its first attempt counted.

    It speaks for one run: `options` say what each host may be asked, and a folder for the run's own pages comes and
    goes with it. `shown_rows` is how many rows of each step it collects for people to look at.
    """

    def __init__(self, options: FetchOptions | None = None, host: str = "127.0.0.1", shown_rows: int = 0) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[str, dict[str, Any]] = {}
        self._seen: dict[str, tuple[float, float]] = {}
        self._first: dict[str, dict[str, list[Placed]]] = {}
        self._urls: dict[int, bool] = {}
        self._forbidden = set[int]()
        self._handlers: dict[str, _Handler] = {}
        self._sites = Sites(options or FetchOptions(), self._send)
        self._pages = TemporaryDirectory(prefix="spindle-pages-", ignore_cleanup_errors=True)
        self._server = _Server((host, 0), self)
        self.token = secrets.token_hex(16)
        self._shown_rows = shown_rows
        self.endpoint = Endpoint(host, self._server.server_address[1], self.token, self._pages.name, shown_rows)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="coordinator", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        with self._lock:
            handlers = list(self._handlers.values())
        for handler in handlers:  # tasks that are left over end by that
            handler.hang_up()
        self._sites.close()
        self._pages.cleanup()

    def counts(self) -> dict[str, Counts]:
        """Counts by step key, of the steps that have begun."""
        with self._lock:
            return {key: self._counts(key, *times) for key, times in self._seen.items()}

    def first_rows(self, key: str) -> list[dict[str, Any]]:
        """The first rows of a step in document order, as far as they have come, with the engine's columns."""
        with self._lock:
            return first(self._first.get(key, {}).values(), self._shown_rows)

    def fetches(self) -> Fetches:
        with self._lock:
            failed = sum(not ok for ok in self._urls.values())
            examples = [(url, reason) for task in self._tasks.values() for url, reason in task["failures"]]
            return Fetches(len(self._urls), failed, len(self._forbidden), tuple(examples[:3]))

    def connected(self, task: str, handler: _Handler) -> None:
        with self._lock:
            self._handlers[task] = handler

    def disconnected(self, task: str) -> None:
        with self._lock:
            self._handlers.pop(task, None)
        self._sites.gone(task)

    def take(self, connection: str, message: dict[str, Any]) -> None:
        """Takes one message of a task."""
        if "origin" in message:
            self._sites.take(connection, message)
        else:
            self._count(message)

    def _counts(self, key: str, first: float, last: float) -> Counts:
        rows, pages, errors, received = (
            sum(task[what].get(key, 0) for task in self._tasks.values())
            for what in ("rows", "pages", "errors", "bytes")
        )
        return Counts(rows, pages, errors, received, last - first)

    def _count(self, message: dict[str, Any]) -> None:
        now = time.monotonic()
        with self._lock:
            self._tasks[message["task"]] = message
            self._forbidden.update(message.pop("forbidden"))
            for key, rows in message.pop("first").items():
                self._first.setdefault(key, {})[message["task"]] = rows
            self._urls.update(dict.fromkeys(message.pop("fetched"), True))
            for url in message.pop("failed"):
                self._urls.setdefault(url, False)
            for key in {**message["rows"], **message["pages"]}:
                self._seen[key] = (self._seen.get(key, (now, now))[0], now)

    def _send(self, messages: Iterable[Message]) -> None:
        for task, message in messages:
            with self._lock:
                handler = self._handlers.get(task)
            if handler:
                handler.send(message)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        super().__init__(address, _Handler)


class _Handler(socketserver.StreamRequestHandler):
    """One task's connection; the first line says whose it is."""

    server: _Server  # type: ignore[assignment]

    def handle(self) -> None:
        coordinator = self.server.coordinator
        hello = json.loads(self.rfile.readline() or b"{}")
        if not hmac.compare_digest(str(hello.get("token")), coordinator.token):
            return
        # a task that Spark starts again has a connection of its own, and leases of its own
        connection = f"{hello['task']}#{self.client_address[1]}"
        self._outgoing: SimpleQueue[bytes] = SimpleQueue()
        writer = threading.Thread(target=self._write, name=connection, daemon=True)
        writer.start()
        coordinator.connected(connection, self)
        try:
            self._listen(coordinator, connection)
        finally:
            coordinator.disconnected(connection)
            self._outgoing.put(b"")
            writer.join()

    def send(self, message: dict[str, Any]) -> None:
        """Returns at once: a task that does not read what it is told keeps no other waiting."""
        self._outgoing.put(json.dumps(message).encode() + b"\n")

    def _write(self) -> None:
        with suppress(OSError):  # whoever has hung up gives back its leases by that
            while line := self._outgoing.get():
                self.wfile.write(line)

    def hang_up(self) -> None:
        with suppress(OSError):  # the other side has hung up already
            self.connection.shutdown(socket.SHUT_RDWR)

    def _listen(self, coordinator: Coordinator, connection: str) -> None:
        with suppress(ConnectionError):  # a task that was killed
            for line in self.rfile:
                message = json.loads(line)
                if "end" in message:
                    self.send(message)
                    return
                coordinator.take(connection, message)
