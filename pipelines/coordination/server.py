"""The driver's coordinator: a server to which every task of a run reports its counts, and which limits their requests.

It runs on one asyncio loop in its own thread, with one connection per task.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self

import msgspec

from pipelines.coordination.failures import MAX_ADDRESSES, FailureList, list_blocking_hosts, sum_answers, sum_hosts
from pipelines.coordination.messages import (
    LENGTH_BYTES,
    MAX_HELLO_BYTES,
    Acquire,
    Cookies,
    Counts,
    DriverMessage,
    End,
    Endpoint,
    Environment,
    FailedPage,
    FetchTally,
    Hello,
    InferenceHandler,
    Pause,
    PlacedRow,
    Readings,
    Release,
    Report,
    Sample,
    StepsDone,
    StepsWanted,
    StepWanted,
    TaskMessage,
    Waiting,
    decode_task_message,
    encode_frame,
)
from pipelines.coordination.site_limits import SiteLimits
from pipelines.fetch import CrawlOptions
from pipelines.fetch.session import LocalSession

if TYPE_CHECKING:
    from pipelines.coordination.seen_pages import SeenPages

_HELLO_SECONDS = 10.0
_MAX_GONE_PAGES = 20
_MAX_FRAME_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FetchTotals:
    """Numbers of distinct URLs that were requested, failed in every attempt, or are forbidden by their sites.

    `examples` are a few failures as (URL, reason).
    """

    urls: int
    failed: int
    forbidden: int
    examples: tuple[tuple[str, str], ...]


@dataclass(eq=False)
class _Task:
    """A connected task; another attempt of the same Spark task has a connection of its own."""

    name: str
    writer: StreamWriter

    def send(self, message: DriverMessage) -> None:
        """Send without waiting: a task that reads slowly delays no other."""
        self.writer.write(encode_frame(message))


class Coordinator:
    """Server for the tasks of one run, listening on `bind` at a free port. Use as a context manager.

    `options` limit the requests to each host; the coordinator's own port is refused besides. The first `preview_rows`
    rows of each step are collected. A task that runs again replaces the counts of its earlier attempt. Tasks get the
    variables of `environment`, which are never in Spark's settings. `inference` answers questions about pages.
    """

    inference: InferenceHandler | None = None

    def __init__(
        self,
        options: CrawlOptions | None = None,
        preview_rows: int = 0,
        bind: str = "127.0.0.1",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._environment = dict(environment or {})
        self._tasks = set[_Task]()
        self._lock = threading.Lock()  # of the counts, which other threads read
        self._reports: dict[str, Report] = {}
        self._begun: dict[str, None] = {}  # step keys in order
        self._previews: dict[str, dict[str, list[PlacedRow]]] = {}
        self._urls: dict[int, bool] = {}
        self._forbidden = set[int]()
        self._failures = FailureList()
        self.session = LocalSession()
        family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        self._socket = socket.create_server((bind, 0), family=family, backlog=1024)
        token = secrets.token_hex(16)
        port = self._socket.getsockname()[1]
        self.endpoint = Endpoint(bind, port, token, preview_rows, has_environment=bool(self._environment))
        options = options or CrawlOptions()
        self.options = replace(options, own_endpoints=(*options.own_endpoints, (bind, self.endpoint.port)))
        self._sites = SiteLimits(self.options)
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="coordinator", daemon=True)

    @cached_property
    def seen(self) -> SeenPages:
        """The pages that an incremental run has requested."""
        from pipelines.coordination.seen_pages import SeenPages  # here, because trials do without Arrow

        return SeenPages()

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._sites.shutdown()
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def get_counts(self) -> dict[str, Counts]:
        """Return counts by step key, for the steps that have begun, or whose links were looked for."""
        with self._lock:
            found: dict[str, Counts] = {key: Counts() for key in self._begun}
            for report in self._reports.values():
                for key, counts in report.steps.items():
                    if counts.searched or key in found:
                        found.setdefault(key, Counts()).add(counts)
            return found

    def get_preview(self, key: str) -> list[dict[str, Any]]:
        """Return the first rows of a step in document order that have arrived, with the engine's columns."""
        return [row for _, row in self._merge_preview(key)]

    def get_fetch_totals(self) -> FetchTotals:
        with self._lock:
            failed = sum(not ok for ok in self._urls.values())
            examples = [(each.url, each.message) for each in self._failures.list_unfetched()[:MAX_ADDRESSES]]
            return FetchTotals(len(self._urls), failed, len(self._forbidden), tuple(examples))

    def export_report(self) -> Report:
        """Return all that the tasks have reported so far as one report."""
        counts = self.get_counts()
        previews = {key: self._merge_preview(key) for key in [*self._previews]}
        with self._lock:
            return Report(
                steps=counts,
                fetched=[url for url, ok in self._urls.items() if ok],
                failed=[url for url, ok in self._urls.items() if not ok],
                forbidden=[*self._forbidden],
                answers=sum_answers(report.answers for report in self._reports.values()),
                failures=self._failures.list_pages(),
                hosts=sum_hosts(report.hosts for report in self._reports.values()),
                previews=previews,
                seen=self.seen.list_pages(),
                left_out=sum(each.left_out for each in self._reports.values()),
                gone=[url for report in self._reports.values() for url in report.gone][:_MAX_GONE_PAGES],
            )

    def import_report(self, report: Report) -> None:
        """Add the exported state of an earlier run."""
        self._count("", report)

    def _merge_preview(self, key: str) -> list[PlacedRow]:
        with self._lock:
            rows = merge(*self._previews.get(key, {}).values(), key=itemgetter(0))
            return [*islice(rows, self.endpoint.preview_rows)]

    def list_failed_pages(self) -> list[FailedPage]:
        """Return the first pages that tasks could not fetch, in the order of their arrival."""
        with self._lock:
            return self._failures.list_pages()

    def list_answers(self) -> list[tuple[FetchTally, Sequence[str]]]:
        """Return the counts of pages by status and reason, with the first addresses of those that have failed."""
        with self._lock:
            answers = sum_answers(report.answers for report in self._reports.values())
            return [(each, self._failures.get_addresses(each) if each.reason else ()) for each in answers]

    def list_blocking_hosts(self) -> list[tuple[str, int, int]]:
        """Return the hosts that block a large share of their pages, with the numbers of pages and of blocked ones."""
        with self._lock:
            return list_blocking_hosts(sum_hosts(report.hosts for report in self._reports.values()))

    def count_left_out(self) -> int:
        """Return the number of known pages that an incremental run has not requested."""
        with self._lock:
            return sum(each.left_out for each in self._reports.values())

    def list_gone_pages(self) -> list[str]:
        """Return the addresses of some known pages that no longer exist."""
        with self._lock:
            gone = (url for report in self._reports.values() for url in report.gone)
            return [*islice(dict.fromkeys(gone), _MAX_GONE_PAGES)]

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._handle, sock=self._socket)
        await self._stopped.wait()
        server.close()
        for task in list(self._tasks):  # tasks that still run end by this
            task.writer.transport.abort()
        self._sites.cancel()

    async def _handle(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(OSError, EOFError, TimeoutError, msgspec.DecodeError):  # lost connections and strangers
            try:
                hello = await asyncio.wait_for(_read(reader, MAX_HELLO_BYTES), _HELLO_SECONDS)
                if isinstance(hello, Hello) and hmac.compare_digest(hello.token, self.endpoint.token):
                    await self._listen(_Task(hello.task, writer), reader)
            finally:
                writer.close()

    async def _listen(self, task: _Task, reader: StreamReader) -> None:
        self._tasks.add(task)
        with self._lock:
            if task.name in self._reports:  # it runs again, and reports its failures again
                self._failures.remove(task.name)
        try:
            while not isinstance(message := await _read(reader, _MAX_FRAME_BYTES), End):
                self._take(task, message)
            task.send(message)
            await task.writer.drain()
        finally:
            self._tasks.remove(task)
            if self.inference:
                self.inference.leave(task)
            self._sites.remove(task)

    def _take(self, task: _Task, message: TaskMessage) -> None:
        match message:
            case Acquire(origin=origin, slots=slots):
                self._sites.acquire(task, origin, slots)
            case Release(origin=origin, slots=slots, turn=turn):
                self._sites.release(task, origin, slots, turn)
            case Pause(origin=origin, seconds=seconds):
                self._sites.pause(origin, seconds)
            case Report():
                self._count(task.name, message)
            case Sample() | Readings() | Waiting() | StepsWanted() | StepWanted() | StepsDone() if self.inference:
                self.inference.take(task, message)
            case Cookies(lines=[]):
                task.send(Cookies(self.session.load()))
            case Cookies(lines=lines):
                self.session.save(lines)
            case Environment():
                task.send(Environment(self._environment))
            case _:
                raise ConnectionAbortedError(f"unexpected {message}")

    def _count(self, task: str, report: Report) -> None:
        with self._lock:
            self._reports[task] = report
            self._failures.add(task, report.failures)
            if report.seen:
                self.seen.add(report.seen)
            self._forbidden.update(report.forbidden)
            self._urls.update(dict.fromkeys(report.fetched, True))
            for url in report.failed:
                self._urls.setdefault(url, False)
            for key, rows in report.previews.items():
                self._previews.setdefault(key, {})[task] = rows
            begun = (key for key, each in report.steps.items() if each.rows or each.pages)
            self._begun.update(dict.fromkeys(begun))


async def _read(reader: StreamReader, max_bytes: int) -> TaskMessage:
    length = int.from_bytes(await reader.readexactly(LENGTH_BYTES))
    if length > max_bytes:
        raise ConnectionAbortedError("the message is too long")
    return decode_task_message(await reader.readexactly(length))
