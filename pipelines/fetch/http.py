"""Pages over HTTP by libcurl's multi interface: many requests in flight on one thread, connections kept."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from random import SystemRandom
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import pycurl

from pipelines.fetch.failures import passing_status
from pipelines.fetch.guard import Guard
from pipelines.fetch.options import FetchOptions
from pipelines.fetch.page import Page
from pipelines.fetch.queue import Request, RequestQueue
from pipelines.fetch.transfer import Transfer
from pipelines.fetch.urls import canonical_url

if TYPE_CHECKING:
    from pipelines.fetch.cache import PageCache

T = TypeVar("T")

_TICK = 0.1  # seconds between looks at what libcurl has no timer for
_PAUSE = 1.0  # seconds without work after which time-outs are the caller's doing
_random = SystemRandom()


class HttpFetcher:
    """Fetches pages, up to `options.concurrency` at a time; for one thread. Connections live until `close`.

    With a `cache`, a page that it has fresh is not fetched, an old one only if it has changed, and what comes is kept.
    """

    def __init__(self, options: FetchOptions | None = None, cache: PageCache | None = None) -> None:
        self._options = options or FetchOptions()
        self._cache = cache
        self._guard = Guard(self._options.allow_networks)
        self._idle: list[Transfer] = []
        self._active: dict[pycurl.Curl, Transfer] = {}
        self._worked_at = self._looked_at = time.monotonic()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
        self._multi.setopt(pycurl.M_MAXCONNECTS, 4 * self._options.concurrency)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends what is still in flight, closes all connections, and writes what the cache still holds."""
        if self._cache:
            self._cache.flush()
        for transfer in list(self._active.values()):
            self._release(transfer)
        for transfer in self._idle:
            transfer.curl.close()
        self._idle.clear()
        self._multi.close()

    def fetch(self, requests: Iterable[tuple[str, T]]) -> Iterator[tuple[Page, T]]:
        """A page for each (url, tag), in the order in which they finish; failures are pages with an `error`.
        `requests` is pulled from only as requests can start. Several such iterators of one fetcher may be interleaved.
        """
        queue = RequestQueue(requests, self._options)
        mine: set[Transfer] = set()
        finished: deque[Transfer] = deque()
        try:
            while True:
                pages = self._finish(mine, finished, queue) + self._start(mine, finished, queue)
                self._perform()
                yield from pages
                if not mine and queue.empty:
                    return
                if not finished:
                    self._wait(queue)
        finally:
            for transfer in mine:
                self._release(transfer)

    def _start(self, mine: set[Transfer], finished: deque[Transfer], queue: RequestQueue[T]) -> list[tuple[Page, T]]:
        """Starts what may start; the pages of what need not be fetched or cannot be."""
        at_hand: list[tuple[Page, T]] = []
        room = self._options.concurrency
        while len(mine) < room and len(at_hand) < room and (request := queue.next()):
            url = canonical_url(request.url)
            page = self._at_hand(request, url)
            if page or not url:
                queue.done(request)
                at_hand.append((page or _not_an_address(request.url), request.tag))
                continue
            transfer = self._idle.pop() if self._idle else Transfer(self._options, self._guard)
            transfer.prepare(request, url, finished)
            mine.add(transfer)
            self._active[transfer.curl] = transfer
            self._multi.add_handle(transfer.curl)
        return at_hand

    def _at_hand(self, request: Request[T], url: str | None) -> Page | None:
        """The page that the cache has of `url`; one that is too old is left with the request."""
        kept = self._cache.get(url) if self._cache and url else None
        if kept is None:
            return None
        if kept.requested_url != request.url:
            kept = replace(kept, requested_url=request.url)
        if self._cache and self._cache.is_fresh(kept):
            return kept
        request.kept = kept
        return None

    def _perform(self) -> None:
        """Lets libcurl work and hands what is over to the iterators that asked for it."""
        paused = time.monotonic() - self._worked_at
        if paused > _PAUSE:
            for transfer in self._active.values():
                transfer.interrupt(paused)
        self._multi.perform()
        self._worked_at = now = time.monotonic()
        if now - self._looked_at > _TICK:
            self._looked_at = now
            for transfer in self._active.values():
                transfer.give_up_if_silent(now)
        left = 1
        while left:
            left, succeeded, failed = self._multi.info_read()
            for curl in succeeded:
                self._over(curl, None)
            for curl, code, _ in failed:
                self._over(curl, code)

    def _over(self, curl: pycurl.Curl, failure: int | None) -> None:
        transfer = self._active[curl]
        transfer.failure = failure
        if not transfer.silent:
            transfer.finished.append(transfer)

    def _wait(self, queue: RequestQueue[T]) -> None:
        """Waits until a socket is ready, a retry is due or a tick is over."""
        seconds = queue.wait(_TICK)
        if self._multi.select(seconds) < 0:
            time.sleep(min(seconds, 0.01) if self._active else seconds)

    def _finish(self, mine: set[Transfer], finished: deque[Transfer], queue: RequestQueue[T]) -> list[tuple[Page, T]]:
        """The pages of the transfers that are over, but for those that will be tried again."""
        pages: list[tuple[Page, T]] = []
        while finished:
            transfer = finished.popleft()
            request = transfer.request
            delay = self._retry_delay(transfer)
            if delay is None:
                pages.append((self._kept(transfer.page(), request), request.tag))
            mine.discard(transfer)
            self._release(transfer)
            queue.done(request)
            if delay is not None:
                queue.again(request, delay)
        return pages

    def _kept(self, page: Page, request: Request[T]) -> Page:
        """`page`, or the old copy when nothing has changed; kept for later unless it failed."""
        if self._cache is None:
            return page
        if page.status == 304 and request.kept:
            page = replace(request.kept, fetched_at=page.fetched_at)
        if page.error is None and page.status is not None and not passing_status(page.status):
            self._cache.put(page)
        return page

    def _retry_delay(self, transfer: Transfer) -> float | None:
        """Seconds until the next try: exponential with jitter, at least what the server asks; None for no other try."""
        options, attempt = self._options, transfer.request.attempt
        if not transfer.may_pass() or attempt >= options.retries:
            return None
        asked = transfer.retry_after() or 0.0
        if asked > options.max_retry_after:
            return None
        return max(asked, options.backoff * 2**attempt * _random.uniform(0.5, 1.5))

    def _release(self, transfer: Transfer) -> None:
        self._multi.remove_handle(transfer.curl)
        del self._active[transfer.curl]
        self._idle.append(transfer)


def _not_an_address(url: str) -> Page:
    error = f"'{url[:200]}' is not an http or https address"
    return Page(url, url, None, error, None, None, b"", datetime.now(UTC))
