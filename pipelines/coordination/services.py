"""Requests of stages to services over HTTP, like search engines, and to further pages."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from pipelines.coordination.client import SharedHostThrottle, SharedServiceThrottle, connect
from pipelines.coordination.messages import Endpoint
from pipelines.errors import AnswerPending
from pipelines.fetch import Fetcher, FetchOptions, HttpFetcher, Page
from pipelines.fetch.fetcher import PageCache
from pipelines.fetch.requests import RequestArguments, RequestDetails, build_template
from pipelines.fetch.urls import origin
from pipelines.language.parameters import ParameterText

Answer = TypeVar("Answer")

_THREADS = 4  # requests at once of one task
_MOST_KEPT = 20_000  # answers
_WAIT_SECONDS = 0.25  # between calls of `while_waiting`

OpenCache = Callable[[], AbstractContextManager[PageCache | None]]
_Key = tuple[str, tuple[tuple[str, str], ...], bool]  # address, headers, whether it is a page of a site


class ServiceFailed(Exception):
    """A service gave no usable answer; the message is a sentence for the row's `_error`, without secrets."""


@dataclass(slots=True)
class _Arrived:
    """The answer to a request, or its failure, with the page of a site until it is counted."""

    answer: object = None
    failure: ServiceFailed | None = None
    page: Page | None = None


class ServiceClient:
    """Sends requests in its own threads, through the fetch guard and within the limits of each host, during the task.

    A method raises AnswerPending until its answer has arrived; the row is taken again then. Equal requests of a task
    are sent once. `while_waiting` is called again and again while the task waits. For one thread.
    """

    while_waiting: Callable[[], object] | None = None

    def __init__(
        self,
        options: FetchOptions,
        endpoint: Endpoint | None,
        task: str,
        open_cache: OpenCache = nullcontext,
        caches_answers: bool = False,
    ) -> None:
        self._options = options
        self._service_options = replace(options, proxies=(), blocked_when=None)  # which are for the pages of sites
        self._endpoint = endpoint
        self._open_cache = open_cache
        self._caches_answers = caches_answers
        self._task = task
        self._stop = threading.Event()
        self._threads = ThreadPoolExecutor(_THREADS, "service")
        self._answers: dict[_Key, Future[_Arrived]] = {}
        self._pages: list[Page] = []
        self._arrived = 0
        self._changed = threading.Condition()
        self.answers = 0

    def ask(self, url: str, read: Callable[[Page], Answer], headers: Mapping[str, str] | None = None) -> Answer:
        """Return the result of `read` for a service's answer; raise AnswerPending and ServiceFailed.

        Credentials belong into headers, which only the host of `url` gets. `read` runs in another thread.
        """
        return self._get((url, tuple((headers or {}).items()), False), read)

    def read_page(self, url: str, read: Callable[[Page], Answer]) -> Answer:
        """Return the result of `read` for a web page, whose robots.txt and host limits hold; raise as `ask` does."""
        return self._get((url, (), True), read)

    def take_pages(self) -> list[Page]:
        """Return the pages of `read_page` whose results were taken since the last call, without their bodies."""
        taken, self._pages = self._pages, []
        return taken

    def poll(self) -> None:
        """Take the answers that have arrived."""
        self.answers = self._arrived

    def hurry(self) -> None:
        """Do nothing: no answer waits for another task."""

    def wait(self, urgent: bool = False) -> None:
        """Wait for the next answers; raise DriverGone."""
        with self._changed:
            while not self._changed.wait_for(lambda: self._arrived > self.answers, _WAIT_SECONDS):
                if self.while_waiting:
                    self.while_waiting()
        self.poll()

    def close(self) -> None:
        """Abort the requests in flight and end the threads."""
        self._stop.set()
        self._threads.shutdown(cancel_futures=True)

    def _get(self, key: _Key, read: Callable[[Page], Answer]) -> Answer:
        found = self._answers.get(key)
        if found is None:
            if len(self._answers) >= _MOST_KEPT:
                self._forget()
            found = self._answers[key] = self._threads.submit(self._fetch, key, read)
            found.add_done_callback(self._note_arrival)
        if not found.done():
            raise AnswerPending
        arrived = found.result()
        if arrived.page is not None:
            self._pages.append(arrived.page)
            arrived.page = None
        if arrived.failure is not None:
            raise arrived.failure
        return cast("Answer", arrived.answer)

    def _forget(self) -> None:
        """Forget the older half of the answers; a row that still waits for one sends its request again."""
        old = [key for key, answer in self._answers.items() if answer.done()][: _MOST_KEPT // 2]
        for key in old:
            del self._answers[key]

    def _note_arrival(self, _: Future[_Arrived]) -> None:
        with self._changed:
            self._arrived += 1
            self._changed.notify_all()

    def _fetch(self, key: _Key, read: Callable[[Page], object]) -> _Arrived:
        url, headers, is_page = key
        try:
            details = _describe_request(url, dict(headers)) if headers else None
        except ServiceFailed as failed:
            return _Arrived(failure=failed)
        with self._open_fetcher(is_page) as fetcher:
            found = next((page for page, _ in fetcher.fetch([(url, None)], lambda _url, _tag: details)), None)
        kept = replace(found, body=b"", head=b"") if found and is_page else None
        if found is None or not found.ok:
            reason = (found.error or f"it answered {found.status}") if found else "the run has ended"
            return _Arrived(failure=ServiceFailed(f"{origin(url)} gave no answer: {reason}"), page=kept)
        try:
            return _Arrived(read(found), page=kept)
        except ServiceFailed as failed:
            return _Arrived(failure=failed, page=kept)

    @contextmanager
    def _open_fetcher(self, is_page: bool) -> Generator[Fetcher]:
        """Provide a fetcher that shares the throttle of the run, and for pages its cache, or for answers too."""
        options = self._options if is_page else self._service_options
        connection = connect(self._endpoint, f"{self._task}/services")
        throttle = None
        if connection is not None:
            throttle = (SharedHostThrottle if is_page else SharedServiceThrottle)(connection, options)
        try:
            with (
                self._open_cache() if is_page or self._caches_answers else nullcontext() as cache,
                HttpFetcher(options, throttle, cache, stop=self._stop) as fetcher,
            ):
                yield fetcher
        finally:
            if connection is not None:
                connection.close()


def _describe_request(url: str, headers: Mapping[str, str]) -> RequestDetails | None:
    """Return the request with headers that are sent as they are, and only to the host of `url`."""
    literal = {name: ParameterText(value) for name, value in headers.items()}
    try:
        arguments = RequestArguments(headers=literal)
    except ValueError:  # which repeats the value
        raise ServiceFailed("the request cannot be sent: a header, such as that of its key, is not valid") from None
    template = build_template(arguments, RequestArguments(), lambda _: False, (url,), secrets=headers.values())
    return template.build(url, lambda _: None, None) if template else None
