"""The request queue of a fetcher: order, redirects, retries, pages from the cache, and waiting for hosts."""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Generic, TypeVar

from pipelines.fetch.documents import get_documents, put_documents
from pipelines.fetch.fetcher import Describe, FetchOptions, PageCache
from pipelines.fetch.page import Page, refresh_page
from pipelines.fetch.requests import RequestDetails
from pipelines.fetch.throttle import HostThrottle, Refusal
from pipelines.fetch.urls import canonical_url, origin
from pipelines.language.names import truncate

T = TypeVar("T")
PageT = TypeVar("PageT", bound=Page)
Cookies = Sequence[str]  # lines of Netscape's format


class Request(Generic[T]):
    """A request for a page, from the URL in the pipeline through all redirects.

    `requested_url` is the URL as the caller wrote it. `addresses` are its canonical form and the redirects so far,
    which took `elapsed` seconds and set the `cookies`. Other requests for one of the first `shared` addresses get the
    page too; behind a redirect that set cookies it is the request's own. `tag` belongs to the caller, `stale` is an old
    copy of the page, to be revalidated. `details` are None for a plain GET.
    """

    __slots__ = (
        "addresses",
        "attempt",
        "cookies",
        "details",
        "elapsed",
        "origin",
        "requested_url",
        "shared",
        "stale",
        "tag",
        "variant",
    )

    def __init__(self, requested_url: str, address: str, tag: T, details: RequestDetails | None = None) -> None:
        self.requested_url = requested_url
        self.addresses: tuple[str, ...] = (address,)
        self.shared = 1
        self.origin = origin(address)
        self.elapsed = 0.0
        self.cookies: Cookies = ()
        self.tag = tag
        self.stale: Page | None = None
        self.attempt = 0
        self.details = details
        self.variant = details.variant if details else ""

    @property
    def address(self) -> str:
        """The URL to request next."""
        return self.addresses[-1]

    @property
    def redirects(self) -> tuple[str, ...]:
        return self.addresses[1:]

    @property
    def key(self) -> str:
        """The key of the page: requests with equal keys get the same page."""
        address = self.addresses[self.shared - 1]
        return f"{self.variant}\n{address}" if self.variant else address

    @property
    def is_own(self) -> bool:
        """Whether no other request for the address gets its page."""
        return self.shared < len(self.addresses)

    def follow(self, address: str, seconds: float = 0.0, cookies: Cookies = ()) -> None:
        """Continue at `address`, a canonical URL, after a redirect that took so many seconds."""
        self.shared += not (cookies or self.is_own)
        self.addresses, self.origin = (*self.addresses, address), origin(address)
        self.elapsed += seconds
        self.cookies = cookies
        self.stale = None

    def prepend_redirects(self, page: PageT) -> PageT:
        """Return `page`, fetched from `address`, as the page of the first address."""
        if not self.redirects:
            return page
        redirects = self.redirects if page.url != self.address else self.redirects[:-1]
        return replace(page, requested_url=self.addresses[0], redirects=(*redirects, *page.redirects))

    def split_redirects(self, page: Page) -> list[Page]:
        """Return the page of the first address as that of each redirect; nothing if only this request gets it.

        Cookies and details make a page the request's own.
        """
        if self.is_own or self.details:
            return []
        addresses = enumerate(self.redirects, start=1)
        return [replace(page, requested_url=address, redirects=page.redirects[index:]) for index, address in addresses]

    def restore_url(self, page: PageT) -> PageT:
        """Return `page` with the URL as the caller wrote it."""
        return page if page.requested_url == self.requested_url else replace(page, requested_url=self.requested_url)


class RequestQueue(Generic[T]):
    """The requests of one `fetch` call.

    A fetcher sends the requests that `start` yields and reports each by `complete`, `redirect` or `retry`. Pages that
    need no request, or must not be requested, come from `take_finished`. Requests for an address that is in flight
    already wait for its page. The number of requests that wait is bounded, so that the source is read lazily.
    `describe` returns the details of a request from its URL and tag, or raises ValueError.
    """

    def __init__(
        self,
        requests: Iterable[tuple[str, T]],
        options: FetchOptions,
        throttle: HostThrottle,
        cache: PageCache | None = None,
        describe: Describe[T] | None = None,
    ) -> None:
        self._source = iter(requests)
        self._describe = describe
        self._exhausted = False
        self._throttle = throttle
        self._cache = cache
        self._max_finished = options.concurrency
        self._max_waiting = 64 * options.concurrency
        self._waiting_count = 0
        self._ready: deque[Request[T]] = deque()
        self._by_origin: dict[str, deque[Request[T]]] = {}  # waiting for their host
        self._free_origins: deque[str] = deque()
        self._in_flight: dict[str, list[Request[T]]] = {}  # by address: the requests that wait for its page
        self._delayed: list[tuple[float, int, Request[T]]] = []
        self._sequence = count()
        self._finished: list[tuple[Page, T]] = []

    @property
    def empty(self) -> bool:
        return self._exhausted and not (self._ready or self._delayed or self._waiting_count or self._finished)

    def start(self, room: int) -> Iterator[Request[T]]:
        """Yield up to `room` requests to send now."""
        if not room:
            return
        while self._delayed and self._delayed[0][0] <= time.monotonic():
            self._schedule(heapq.heappop(self._delayed)[2])
        self._free_origins.extend(self._throttle.poll())
        for _ in range(room):
            # one by one: a permit of the throttle is for a request that starts at once
            while not self._ready and self._free_origins:
                self._admit(self._free_origins.popleft())
            if not self._ready:
                self._pull()
            if not self._ready:
                return
            yield self._ready.popleft()

    def take_finished(self) -> list[tuple[Page, T]]:
        """Return the pages that needed no request since the last call."""
        finished, self._finished = self._finished, []
        return finished

    def complete(self, request: Request[T], pages: Sequence[Page], cacheable: bool = True) -> list[Page]:
        """End `request` with its page, or the documents of its visit; return them, or the old copy after a 304.

        Without `cacheable` they have more than a cache keeps, so no other request gets them.
        """
        self._release(request)
        if request.stale and pages[0].status == 304:
            pages = [request.prepend_redirects(refresh_page(request.stale, pages[0]))]
        if cacheable and self._cache:
            put_documents(self._cache, pages, request.variant)
            for each in zip(*map(request.split_redirects, pages), strict=True):
                put_documents(self._cache, each)
        if waiting := self._take_waiting(request):
            first, start = request.addresses[request.shared - 1], request.shared - 1
            shared = [replace(page, requested_url=first, redirects=page.redirects[start:]) for page in pages]
            for each in waiting:
                if cacheable:
                    self._finish(each, shared)
                else:
                    self._schedule(each)
        return [request.restore_url(page) for page in pages]

    def redirect(self, request: Request[T], address: str, seconds: float, cookies: Cookies = ()) -> None:
        """Continue `request` at `address`; the redirect took so many seconds.

        Behind cookies the page is only for the requests that wait for it already.
        """
        self._release(request)
        if cookies or request.is_own:
            request.follow(address, seconds, cookies)
            self._schedule(request)
            return
        waiting = self._take_waiting(request)
        request.follow(address, seconds)
        self._submit(request)
        for each in waiting:
            each.follow(address)
            self._submit(each)

    def retry(self, request: Request[T], delay: float) -> None:
        """Send `request` again in `delay` seconds."""
        self._release(request)
        request.attempt += 1
        heapq.heappush(self._delayed, (time.monotonic() + delay, next(self._sequence), request))

    def cancel(self, running: Iterable[Request[T]]) -> None:
        """Release the hosts of the running and the waiting requests."""
        for request in (*running, *self._ready):
            self._throttle.release(request.origin)
        for each in self._by_origin:
            self._throttle.cancel(each)

    def pause_host(self, request: Request[T], seconds: float) -> None:
        self._throttle.pause(request.origin, seconds)

    def wait(self, timeout: float, block: bool) -> float:
        """Return the seconds until a request may start, at most `timeout`; block for as long if `block`."""
        if self._cache:
            self._cache.tick()
        if self._delayed:
            timeout = min(timeout, max(0.0, self._delayed[0][0] - time.monotonic()))
        return self._throttle.wait(timeout, block)

    def _pull(self) -> None:
        """Read the source until a request is ready, or enough of them wait."""
        while (
            not self._ready
            and not self._exhausted
            and self._waiting_count < self._max_waiting
            and len(self._finished) < self._max_finished
        ):
            pulled = next(self._source, None)
            if pulled is None:
                self._exhausted = True
                return
            requested_url, tag = pulled
            url = canonical_url(requested_url)
            if url is None:
                error = f"'{truncate(requested_url)}' is not an http or https address"
                self._finished.append((_make_failed_page(requested_url, error), tag))
                continue
            try:
                details = self._describe(url, tag) if self._describe else None
            except ValueError as error:
                self._finished.append((_make_failed_page(requested_url, str(error)), tag))
            else:
                self._submit(Request(requested_url, url, tag, details))

    def _submit(self, request: Request[T]) -> None:
        """Finish `request` from the cache, let it wait for an equal one in flight, or schedule it."""
        if self._cache:
            if self._finish_from_cache(request, self._cache):
                return
            if reason := self._cache.refuse(request.address):
                refused = _make_refused_page(request, Refusal(reason, forbidden=False))
                self._finished.append((refused, request.tag))
                return
            key = request.key
            waiting = self._in_flight.get(key)
            if waiting is not None:
                waiting.append(request)
                self._waiting_count += 1
                return
            self._in_flight[key] = []
        self._schedule(request)

    def _finish_from_cache(self, request: Request[T], cache: PageCache) -> bool:
        """Return whether the cache has a fresh page; a stale one is revalidated by the request."""
        pages = get_documents(cache, request.address, request.variant)
        if not pages:
            return False
        if not all(map(cache.is_fresh, pages)):
            [page, *others] = pages
            is_final = page.url == request.address and not others  # validators belong to the final address
            request.stale = page if is_final else None
            return False
        self._finish(request, pages)
        return True

    def _finish(self, request: Request[T], pages: Sequence[Page]) -> None:
        """End `request` with what was fetched for its address by another one."""
        pages = [
            request.prepend_redirects(replace(page, received=0, attempts=0, seconds=0.0) if page.attempts else page)
            for page in pages
        ]
        if self._cache and request.redirects:
            put_documents(self._cache, pages, request.variant)
            for each in [*zip(*map(request.split_redirects, pages), strict=True)][:-1]:
                put_documents(self._cache, each, request.variant)
        self._finished += [(request.restore_url(page), request.tag) for page in pages]

    def _take_waiting(self, request: Request[T]) -> list[Request[T]]:
        """Remove `request` from those in flight; return the requests that waited for it."""
        if not self._in_flight:
            return []
        waiting = self._in_flight.pop(request.key, None)
        if not waiting:
            return []
        self._waiting_count -= len(waiting)
        return waiting

    def _schedule(self, request: Request[T]) -> None:
        """Make `request` ready, or let it wait for its host."""
        waiting = self._by_origin.get(request.origin)
        if waiting is None:
            if self._acquire(request):
                return
            waiting = self._by_origin[request.origin] = deque()
        waiting.append(request)
        self._waiting_count += 1

    def _admit(self, origin: str) -> None:
        """Make as many requests ready as their host permits."""
        waiting = self._by_origin.get(origin)
        while waiting and self._acquire(waiting[0]):
            waiting.popleft()
            self._waiting_count -= 1
        if not waiting:
            self._by_origin.pop(origin, None)

    def _acquire(self, request: Request[T]) -> bool:
        """Make `request` ready or, if it is refused, finished; return False if it has to wait for its host."""
        permit = self._throttle.acquire(request.origin, request.address)
        if permit is True:
            self._ready.append(request)
        elif isinstance(permit, Refusal):
            self._finished.append((_make_refused_page(request, permit), request.tag))
            for each in self._take_waiting(request):
                each.addresses += request.addresses[request.shared :]
                self._finished.append((_make_refused_page(each, permit), each.tag))
        return permit is not False

    def _release(self, request: Request[T]) -> None:
        self._throttle.release(request.origin)
        if request.origin in self._by_origin:
            self._admit(request.origin)


def _make_refused_page(request: Request[T], refusal: Refusal) -> Page:
    error, url = refusal.reason, request.requested_url
    if request.redirects:
        error, url = f"redirects to {truncate(request.address)}: {error}", request.address
    page = _make_failed_page(request.requested_url, error)
    return replace(page, url=url, forbidden=refusal.forbidden)


def _make_failed_page(url: str, error: str) -> Page:
    return Page(url, url, None, error, None, None, b"", datetime.now(UTC))
