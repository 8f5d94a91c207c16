"""The HTTP fetcher: libcurl's multi interface, with many requests in flight on one thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from random import SystemRandom
from typing import Self, TypeVar

import pycurl

from pipelines.fetch.blocks import mark_blocked
from pipelines.fetch.fetcher import Describe, FetchOptions, PageCache
from pipelines.fetch.page import Page
from pipelines.fetch.proxies import GuardedThrottle, ProxyRotation
from pipelines.fetch.queue import RequestQueue
from pipelines.fetch.refresh import find_refresh
from pipelines.fetch.session import CookieJar, Session
from pipelines.fetch.throttle import HostThrottle, LocalHostThrottle
from pipelines.fetch.transfer import Transfer
from pipelines.http_client.guard import Guard

T = TypeVar("T")

_TICK = 0.1  # seconds between checks for which libcurl has no timer
_MAX_PAUSE = 1.0  # seconds; after a longer pause of this process, timeouts are not the servers' fault
_random = SystemRandom()


class HttpFetcher:
    """A fetcher with up to `options.concurrency` requests in flight; for one thread. Connections live until `close`.

    `throttle` limits the requests per host; without one, the fetcher is for single pages outside of runs. Fresh pages
    are read from `cache`, stale ones are revalidated, and new ones are added to it; the caller closes the cache.
    Cookies are read from `session` and added to it; without one they last for a chain of redirects. Once `stop` is set,
    `fetch` ends without the requests in flight.
    """

    def __init__(
        self,
        options: FetchOptions | None = None,
        throttle: HostThrottle | None = None,
        cache: PageCache | None = None,
        session: Session | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self._options = options or FetchOptions()
        self._stop = stop or threading.Event()
        self._throttle = throttle or LocalHostThrottle(self._options)
        self._cache = cache
        self._guard = Guard(self._options.allow_networks, self._options.own_endpoints)
        self._rotation = None
        if self._options.proxies:
            self._rotation = ProxyRotation(self._options.proxies, self._options.session)
            self._throttle = GuardedThrottle(self._throttle, self._guard)
        self._cookies = CookieJar(session)
        self._idle: list[Transfer] = []
        self._active: dict[pycurl.Curl, Transfer] = {}
        self._performed_at = self._checked_at = time.monotonic()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
        self._multi.setopt(pycurl.M_MAXCONNECTS, 4 * self._options.concurrency)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Abort the requests in flight and close all connections."""
        for transfer in list(self._active.values()):
            self._release(transfer)
        for transfer in self._idle:
            transfer.curl.close()
        self._idle.clear()
        self._multi.close()

    def fetch(self, requests: Iterable[tuple[str, T]], describe: Describe[T] | None = None) -> Iterator[tuple[Page, T]]:
        """Yield a page for each (url, tag) in order of completion; a failed fetch is a page with an `error`.

        `requests` is consumed lazily, as requests can start. Several such iterators of one fetcher may be interleaved.
        """
        queue = RequestQueue(requests, self._options, self._throttle, self._cache, describe)
        running: set[Transfer] = set()
        finished: deque[Transfer] = deque()
        try:
            while True:
                pages = self._collect_pages(running, finished, queue)
                fetched = len(pages)
                if not self._stop.is_set():
                    self._start_transfers(running, finished, queue)
                self._perform()
                pages.extend(queue.take_finished())
                has_cached_pages = len(pages) > fetched
                while pages:
                    yield pages.popleft()  # without a reference here, the page can be freed while the caller works
                    if time.monotonic() - self._performed_at > _TICK:
                        self._perform()
                if (not running and queue.empty) or (self._stop.is_set() and not finished):
                    return
                if not (finished or has_cached_pages):
                    self._wait(queue, running)
        finally:
            for transfer in running:
                if transfer.curl in self._active:  # not after `close`, when garbage is collected
                    self._release(transfer)
            queue.cancel(transfer.request for transfer in running)

    def _start_transfers(self, running: set[Transfer], finished: deque[Transfer], queue: RequestQueue[T]) -> None:
        for request in queue.start(self._options.concurrency - len(running)):
            transfer = self._idle.pop() if self._idle else Transfer(self._options, self._guard)
            transfer.prepare(request, finished)
            own = request.details.list_cookie_names(request.address) if request.details else ()
            self._cookies.prepare(transfer.curl, request.cookies, own)
            if self._rotation:
                transfer.curl.setopt(pycurl.PROXY, self._rotation.choose(request.address, request.attempt))
            running.add(transfer)
            self._active[transfer.curl] = transfer
            self._multi.add_handle(transfer.curl)

    def _perform(self) -> None:
        """Let libcurl work; each transfer that ends appends itself to the `finished` queue of its iterator."""
        began = time.monotonic()
        self._extend_timeouts(began - self._performed_at)
        self._multi.perform()
        self._performed_at = now = time.monotonic()
        self._extend_timeouts(now - began)  # the machine may have been suspended meanwhile
        if now - self._checked_at > _TICK:
            self._checked_at = now
            for transfer in self._active.values():
                transfer.check_first_byte(now)
        remaining = 1
        while remaining:
            remaining, succeeded, failed = self._multi.info_read()
            for curl in succeeded:
                self._active[curl].end(None)
            for curl, code, _ in failed:
                self._active[curl].end(code)

    def _extend_timeouts(self, pause: float) -> None:
        """Excuse the requests in flight from timeouts if this process did not serve them for many seconds."""
        if pause > _MAX_PAUSE:
            for transfer in self._active.values():
                transfer.excuse_pause(pause)

    def _wait(self, queue: RequestQueue[T], running: set[Transfer]) -> None:
        """Wait until a socket is ready or a request may start, at most for a tick."""
        seconds = queue.wait(_TICK, block=not running)
        if running and self._multi.select(seconds) < 0:
            time.sleep(min(seconds, 0.01))

    def _collect_pages(
        self, running: set[Transfer], finished: deque[Transfer], queue: RequestQueue[T]
    ) -> deque[tuple[Page, T]]:
        """Return the pages of finished transfers, apart from redirects and retries, for up to a tick."""
        pages: deque[tuple[Page, T]] = deque()
        now = datetime.now(UTC)
        while finished and not (pages and time.monotonic() - self._performed_at > _TICK):
            transfer = finished.popleft()
            request = transfer.request
            if self._cookies.in_session and transfer.list_set_cookies():
                self._cookies.save(transfer.curl)
            page = transfer.make_page(now) if transfer.succeeded or not self._resend(transfer, queue) else None
            if page and transfer.succeeded:
                page = self._refresh(page, transfer, queue)
            running.discard(transfer)
            self._release(transfer)
            transfer.clear()
            if page:
                for each in queue.complete(request, [mark_blocked(page)]):
                    pages.append((each, request.tag))
        return pages

    def _resend(self, transfer: Transfer, queue: RequestQueue[T]) -> bool:
        """Queue the request again after a redirect or a failure that may pass; return whether it is queued."""
        request = transfer.request
        if address := transfer.find_redirect():
            self._follow(address, transfer, transfer.status, queue)
            return True
        retry_after = transfer.get_retry_after()
        delay = self._compute_retry_delay(transfer, retry_after)
        if retry_after is not None:
            queue.pause_host(request, max(retry_after, delay or self._options.backoff))
        if delay is not None:
            queue.retry(request, delay)
        return delay is not None

    def _refresh(self, page: Page, transfer: Transfer, queue: RequestQueue[T]) -> Page | None:
        """Return the page, unless it leads on to another one, which is requested in its place by a GET.

        An address is requested again only if a cookie was set meanwhile, and once: some pages refresh for ever.
        """
        address = find_refresh(page) if page.error is None else None
        if address is None:
            return page
        request = transfer.request
        has_cookies = bool(request.cookies or transfer.list_set_cookies())
        if request.addresses.count(address) > has_cookies:
            return page
        if too_many := transfer.describe_last_redirect():
            return replace(page, error=too_many, body=b"")
        self._follow(address, transfer, 303, queue)
        return None

    def _follow(self, address: str, transfer: Transfer, status: int, queue: RequestQueue[T]) -> None:
        """Queue the request again at the address that an answer leads to, with the cookies that it has set."""
        request, names = transfer.request, transfer.list_set_cookies()
        cookies = self._cookies.list_followed(transfer.curl) if names or request.cookies else ()
        if request.details:
            request.details = request.details.without_cookies(names).follow(status)
        queue.redirect(request, address, transfer.get_seconds(), cookies)

    def _compute_retry_delay(self, transfer: Transfer, retry_after: float | None) -> float | None:
        """Return the seconds until a retry, exponential with jitter, at least Retry-After; None for no retry."""
        options, attempt = self._options, transfer.request.attempt
        if not transfer.is_retryable() or attempt >= options.retries:
            return None
        if (retry_after or 0) > options.max_retry_after:
            return None
        return max(retry_after or 0, options.backoff * 2**attempt * _random.uniform(0.5, 1.5))

    def _release(self, transfer: Transfer) -> None:
        self._multi.remove_handle(transfer.curl)
        del self._active[transfer.curl]
        self._idle.append(transfer)
