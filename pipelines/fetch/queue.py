"""What is fetched next: requests in their order, as far as they are not at hand and their hosts may be asked."""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Generic, TypeVar

from pipelines.fetch.fetcher import FetchOptions, PageCache
from pipelines.fetch.page import Page, refresh_page
from pipelines.fetch.request import Cookies, Request, as_asked, led_to, on_the_way
from pipelines.fetch.throttle import HostThrottle, Refusal
from pipelines.fetch.urls import canonical_url
from pipelines.language.names import truncate

T = TypeVar("T")
_NEXT = 2  # that ask for what others were led to, for each that failed there


class RequestQueue(Generic[T]):
    """Pulls from `requests` only as many as can start, and a bounded number more that wait for their host.

    Whatever fetches works through one: `starting` says what may start, each of these ends with `done` or `again`, and
    `take_finished` gives the pages of what need not or must not be fetched.
    """

    def __init__(
        self,
        requests: Iterable[tuple[str, T]],
        options: FetchOptions,
        throttle: HostThrottle,
        cache: PageCache | None = None,
    ) -> None:
        self._finished: list[tuple[Page, T]] = []
        self._requests = iter(requests)
        self._exhausted = False
        self._throttle = throttle
        self._cache = cache
        self._room = options.concurrency
        self._max_held = 64 * options.concurrency
        self._max_redirects = options.max_redirects
        self._held: dict[str, deque[Request[T]]] = {}
        self._held_count = 0
        self._ready: deque[Request[T]] = deque()
        self._may_enter: deque[str] = deque()
        # by address of what is being asked for: who else wants its page, and gets it from the cache
        self._awaited: dict[str, deque[Request[T]] | None] = {}
        # where addresses lead whose pages are still to come
        self._moved: dict[str, str] = {}
        self._delayed: list[tuple[float, int, Request[T]]] = []
        self._sequence = count()

    def starting(self, room: int) -> Iterator[Request[T]]:
        """The requests that may start now, at most `room`."""
        if not room:
            return
        while self._delayed and self._delayed[0][0] <= time.monotonic():
            self._offer(heapq.heappop(self._delayed)[2])
        self._may_enter.extend(self._throttle.poll())
        for _ in range(room):
            # one by one: the moment that a host grants is that of a request which starts at once
            while not self._ready and self._may_enter:
                self._enter(self._may_enter.popleft())
            if not self._ready:
                self._pull()
            if not self._ready:
                return
            yield self._ready.popleft()

    def take_finished(self) -> list[tuple[Page, T]]:
        """The pages that came without a request since the last call."""
        finished, self._finished = self._finished, []
        return finished

    def done(self, request: Request[T], page: Page, keep: bool = True) -> Page:
        """`request` brought `page`; returns the page to go on with, the old copy where nothing has changed.

        `keep`: the page is all that it brought, so that it may be used again.
        """
        self._left(request)
        if page.status == 304 and request.kept:
            page = led_to(refresh_page(request.kept, page), request)
        if keep and self._cache:
            self._cache.put(page)
            if request.passed:
                for each in on_the_way(page, request):
                    self._cache.put(each)
        if self._awaited or self._moved:
            self._over(request)
        return as_asked(page, request)

    def redirected(self, request: Request[T], address: str, seconds: float, cookies: Cookies = ()) -> None:
        """After so many seconds `request` is told to go on at `address`: at hand, or to be asked like any other.

        With `cookies` that were set on the way it may be shown what no other is, and asks by itself.
        """
        self._left(request)
        waiting: Iterable[Request[T]] = ()
        if self._cache and not (cookies or request.cookies):
            waiting = self._awaited.pop(request.key, None) or ()
            self._moved[request.key] = address
        else:
            self._over(request)
        request.go_on(address, seconds, cookies)
        if self._cache and not cookies:
            self._ask(request, self._cache)
        else:
            self._offer(request)
        self._lead(waiting, address)

    def again(self, request: Request[T], delay: float) -> None:
        """Puts `request` back, to start in `delay` seconds."""
        self._left(request)
        request.attempt += 1
        heapq.heappush(self._delayed, (time.monotonic() + delay, next(self._sequence), request))

    def abandon(self, running: Iterable[Request[T]]) -> None:
        """Nobody waits for pages any more: neither for those of the requests that run, nor for others."""
        for request in (*running, *self._ready):
            self._throttle.release(request.origin)
        for each in self._held:
            self._throttle.cancel(each)

    def back_off(self, request: Request[T], seconds: float) -> None:
        """The host of `request` wants to be left alone for so long."""
        self._throttle.pause(request.origin, seconds)

    @property
    def empty(self) -> bool:
        return self._exhausted and not (self._ready or self._delayed or self._held_count or self._finished)

    def wait(self, longest: float, sleep: bool) -> float:
        """Seconds until something may start, at most `longest`; sleeps as long if told to."""
        if self._cache:
            self._cache.tick()
        if self._delayed:
            longest = min(longest, max(0.0, self._delayed[0][0] - time.monotonic()))
        return self._throttle.wait(longest, sleep)

    def _pull(self) -> None:
        """Pull until a request is ready, or no more may wait."""
        while (
            not self._ready
            and not self._exhausted
            and self._held_count < self._max_held
            and len(self._finished) < self._room
        ):
            request = self._next()
            if request and not (self._cache and self._waits(request, self._cache)):
                self._offer(request)

    def _next(self) -> Request[T] | None:
        """The next request; None at the end, and for what is no address."""
        pulled = next(self._requests, None)
        if pulled is None:
            self._exhausted = True
            return None
        asked_url, tag = pulled
        url = canonical_url(asked_url)
        if url is None:
            error = f"'{truncate(asked_url)}' is not an http or https address"
            self._finished.append((_failed(asked_url, error), tag))
            return None
        return Request(asked_url, url, tag)

    def _ask(self, request: Request[T], cache: PageCache) -> None:
        """Takes a page that is at hand, waits for one that is being asked for, or has `request` ask like any other."""
        if not self._waits(request, cache):
            self._offer(request)

    def _waits(self, request: Request[T], cache: PageCache) -> bool:
        """Whether `request` need not ask: its page is at hand, or being asked for, here or where this address leads."""
        while True:
            request.key = request.address
            if self._at_hand(request, cache):
                return True
            address = self._moved.get(request.key)
            if address is None or not request.may_be_led(self._max_redirects):
                break
            request.go_on(address, 0.0, ())
        if request.key not in self._awaited:
            self._awaited[request.key] = None
            return False
        waiting = self._awaited[request.key] or deque[Request[T]]()
        waiting.append(request)
        self._awaited[request.key] = waiting
        self._held_count += 1
        return True

    def _lead(self, waiting: Iterable[Request[T]], address: str) -> None:
        """What these have waited for redirects there."""
        for request in waiting:
            self._held_count -= 1
            if self._cache and request.may_be_led(self._max_redirects):
                request.go_on(address, 0.0, ())
                self._ask(request, self._cache)
            else:
                self._awaited.setdefault(request.key, None)
                self._offer(request)

    def _at_hand(self, request: Request[T], cache: PageCache) -> bool:
        """Whether the cache has the page; one that may have changed is left with the request."""
        kept = cache.get(request.address)
        if kept is None:
            return False
        if cache.is_fresh(kept):
            page = led_to(kept, request)
            if request.passed:
                cache.put(page)
                for each in on_the_way(page, request)[:-1]:
                    cache.put(each)
                self._arrived(request, cache)
            self._finished.append((as_asked(page, request), request.tag))
            return True
        request.kept = kept if kept.url == request.address else None  # else its validators are another address's
        return False

    def _offer(self, request: Request[T]) -> None:
        """Makes `request` ready, or holds it until its host may be asked."""
        held = self._held.get(request.origin)
        if held is None:
            if self._may_ask(request):
                return
            held = self._held[request.origin] = deque()
        held.append(request)
        self._held_count += 1

    def _enter(self, origin: str) -> None:
        """Takes from the requests that wait for a host as many as may start."""
        held = self._held.get(origin)
        while held and self._may_ask(held[0]):
            held.popleft()
            self._held_count -= 1
        if not held:
            self._held.pop(origin, None)

    def _may_ask(self, request: Request[T]) -> bool:
        """Whether `request` need not wait for its host: it is ready now, or over because it must never start."""
        permit = self._throttle.acquire(request.origin, request.address)
        if permit is True:
            self._ready.append(request)
        elif isinstance(permit, Refusal):
            self._finished.append((_forbidden(request, permit), request.tag))
            self._over(request)
        return permit is not False

    def _over(self, request: Request[T]) -> None:
        """`request` is over at its address: who has waited for that has the page at hand now, or some ask for it too.

        Two for each that brought nothing: one of them may bring it, and where none does, all have asked before long.
        """
        if self._cache and request.passed:
            self._arrived(request, self._cache)
        if request.cookies:
            return
        waiting, asking = self._awaited.pop(request.key, None), 0
        while waiting and asking < _NEXT:
            each = waiting.popleft()
            self._held_count -= 1
            finished = len(self._finished)
            if not (self._cache and self._at_hand(each, self._cache)):
                self._offer(each)
            asking += len(self._finished) == finished
        if asking:
            self._awaited[request.key] = waiting

    def _arrived(self, request: Request[T], cache: PageCache) -> None:
        """What redirected `request` leads to a page, or to none: it is no longer on its way."""
        for address in (request.url, *request.passed[:-1]):
            self._moved.pop(address, None)

    def _left(self, request: Request[T]) -> None:
        self._throttle.release(request.origin)
        if request.origin in self._held:
            self._enter(request.origin)


def _forbidden(request: Request[T], refusal: Refusal) -> Page:
    reason = refusal.reason
    sentence = f"redirects to {truncate(request.address)}: {reason}" if request.passed else reason
    page = _failed(request.asked_url, sentence)
    return replace(page, url=request.address if request.passed else page.url, forbidden=refusal.forbidden)


def _failed(url: str, error: str) -> Page:
    return Page(url, url, None, error, None, None, b"", datetime.now(UTC))
