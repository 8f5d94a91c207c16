"""Pages over HTTP by libcurl's multi interface: many requests in flight on one thread, connections kept."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from random import SystemRandom
from types import TracebackType
from typing import Self, TypeVar

import pycurl

from pipelines.fetch.fetcher import FetchOptions, PageCache
from pipelines.fetch.guard import Guard
from pipelines.fetch.page import Page
from pipelines.fetch.queue import RequestQueue
from pipelines.fetch.throttle import HostThrottle, LocalHostThrottle
from pipelines.fetch.transfer import Transfer

T = TypeVar("T")

_TICK = 0.1  # seconds between looks at what libcurl has no timer for
_PAUSE = 1.0  # seconds in which nobody looked after what is in flight: time-outs are not the servers' doing
_random = SystemRandom()


class HttpFetcher:
    """Fetches pages, up to `options.concurrency` at a time; for one thread. Connections live until `close`.

    `throttle` limits the requests to each host. Fresh pages come from `cache`, stale ones are revalidated, and new ones
    are stored; the caller closes the cache.
    """

    def __init__(
        self,
        options: FetchOptions | None = None,
        throttle: HostThrottle | None = None,
        cache: PageCache | None = None,
    ) -> None:
        self._options = options or FetchOptions()
        self._throttle = throttle or LocalHostThrottle(self._options)
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
        """Ends what is still in flight and closes all connections."""
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
        queue = RequestQueue(requests, self._options, self._throttle, self._cache)
        mine: set[Transfer] = set()
        finished: deque[Transfer] = deque()
        try:
            while True:
                pages = self._finish(mine, finished, queue)
                came = len(pages)
                self._start(mine, finished, queue)
                self._perform()
                pages.extend(queue.take_finished())
                at_hand = len(pages) > came
                while pages:
                    yield pages.popleft()  # and let it go: what its reader makes of it would live as long
                    if time.monotonic() - self._worked_at > _TICK:  # what is in flight goes on before the next
                        self._perform()
                if not mine and queue.empty:
                    return
                if not (finished or at_hand):
                    self._wait(queue, mine)
        finally:
            for transfer in mine:
                self._release(transfer)
            queue.abandon(transfer.request for transfer in mine)

    def _start(self, mine: set[Transfer], finished: deque[Transfer], queue: RequestQueue[T]) -> None:
        """Starts what may start."""
        for request in queue.starting(self._options.concurrency - len(mine)):
            transfer = self._idle.pop() if self._idle else Transfer(self._options, self._guard)
            transfer.prepare(request, finished)
            mine.add(transfer)
            self._active[transfer.curl] = transfer
            self._multi.add_handle(transfer.curl)

    def _perform(self) -> None:
        """Lets libcurl work and hands what is over to the iterators that asked for it."""
        began = time.monotonic()
        self._interrupt(began - self._worked_at)
        self._multi.perform()
        self._worked_at = now = time.monotonic()
        self._interrupt(now - began)  # the machine may have been held up
        if now - self._looked_at > _TICK:
            self._looked_at = now
            for transfer in self._active.values():
                transfer.give_up_if_stuck(now)
        left = 1
        while left:
            left, succeeded, failed = self._multi.info_read()
            for curl in succeeded:
                self._active[curl].end(None)
            for curl, code, _ in failed:
                self._active[curl].end(code)

    def _interrupt(self, seconds: float) -> None:
        """Tells what is in flight of so many seconds in which it was not looked after."""
        if seconds > _PAUSE:
            for transfer in self._active.values():
                transfer.interrupt(seconds)

    def _wait(self, queue: RequestQueue[T], mine: set[Transfer]) -> None:
        """Waits until a socket is ready, something may start or a tick is over."""
        seconds = queue.wait(_TICK, sleep=not mine)
        if mine and self._multi.select(seconds) < 0:
            time.sleep(min(seconds, 0.01))

    def _finish(self, mine: set[Transfer], finished: deque[Transfer], queue: RequestQueue[T]) -> deque[tuple[Page, T]]:
        """The pages of the transfers that are over, but for those that will be tried again."""
        pages: deque[tuple[Page, T]] = deque()
        now = datetime.now(UTC)
        while finished and not (pages and time.monotonic() - self._worked_at > _TICK):  # what is in flight goes on
            transfer = finished.popleft()
            request = transfer.request
            page = transfer.page(now) if transfer.came or not self._goes_on(transfer, queue) else None
            mine.discard(transfer)
            self._release(transfer)
            transfer.clear()
            if page:
                pages.append((queue.done(request, page), request.tag))
        return pages

    def _goes_on(self, transfer: Transfer, queue: RequestQueue[T]) -> bool:
        """Whether the request has to be sent again, elsewhere or later; `queue` is told."""
        request = transfer.request
        if address := transfer.redirect():
            queue.redirected(request, address, transfer.seconds())
            return True
        asked = transfer.asks_to_be_left_alone()
        delay = self._retry_delay(transfer, asked)
        if asked is not None:
            queue.back_off(request, max(asked, delay or self._options.backoff))
        if delay is not None:
            queue.again(request, delay)
        return delay is not None

    def _retry_delay(self, transfer: Transfer, asked: float | None) -> float | None:
        """Seconds until the next try: exponential with jitter, at least what the server asks; None for no other try."""
        options, attempt = self._options, transfer.request.attempt
        if not transfer.is_retryable() or attempt >= options.retries or (asked or 0) > options.max_retry_after:
            return None
        return max(asked or 0, options.backoff * 2**attempt * _random.uniform(0.5, 1.5))

    def _release(self, transfer: Transfer) -> None:
        self._multi.remove_handle(transfer.curl)
        del self._active[transfer.curl]
        self._idle.append(transfer)
