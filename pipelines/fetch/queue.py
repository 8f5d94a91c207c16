"""What is fetched next: requests in their order, as far as their hosts have room, and retries when they are due."""

from __future__ import annotations

import heapq
import time
from collections import Counter, deque
from collections.abc import Iterable
from itertools import count
from typing import Generic, TypeVar

from pipelines.fetch.options import FetchOptions
from pipelines.fetch.page import Page

T = TypeVar("T")


class Request(Generic[T]):
    """One page to fetch; `tag` is the caller's, `kept` an old copy of the page that may still be right."""

    __slots__ = ("attempt", "host", "kept", "tag", "url")

    def __init__(self, url: str, tag: T, host: str) -> None:
        self.url = url
        self.tag = tag
        self.host = host
        self.kept: Page | None = None
        self.attempt = 0


class RequestQueue(Generic[T]):
    """Pulls from `requests` only as many as can start, and a bounded number more that wait for their host."""

    def __init__(self, requests: Iterable[tuple[str, T]], options: FetchOptions) -> None:
        self._requests = iter(requests)
        self._exhausted = False
        self._per_host = options.per_host
        self._max_held = 4 * options.concurrency
        self._by_host = options.per_host < options.concurrency
        self._running: Counter[str] = Counter()
        self._held: dict[str, deque[Request[T]]] = {}
        self._held_count = 0
        self._ready: deque[Request[T]] = deque()
        self._delayed: list[tuple[float, int, Request[T]]] = []
        self._sequence = count()

    def next(self) -> Request[T] | None:
        """The next request that may start now; None when there is none for the moment."""
        while self._delayed and self._delayed[0][0] <= time.monotonic():
            self._offer(heapq.heappop(self._delayed)[2])
        while not self._ready and not self._exhausted and self._held_count < self._max_held:
            self._pull()
        return self._ready.popleft() if self._ready else None

    def done(self, request: Request[T]) -> None:
        """`request` is no longer in flight: its host has room for another."""
        if not self._by_host:
            return
        host = request.host
        self._running[host] -= 1
        if held := self._held.get(host):
            self._held_count -= 1
            self._offer(held.popleft())
        elif not self._running[host]:
            del self._running[host]
            self._held.pop(host, None)

    def again(self, request: Request[T], delay: float) -> None:
        """Puts `request` back, to start in `delay` seconds."""
        request.attempt += 1
        heapq.heappush(self._delayed, (time.monotonic() + delay, next(self._sequence), request))

    @property
    def empty(self) -> bool:
        return self._exhausted and not (self._ready or self._delayed or self._held_count)

    def wait(self, longest: float) -> float:
        """Seconds until a retry is due, at most `longest`."""
        if not self._delayed:
            return longest
        return min(longest, max(0.0, self._delayed[0][0] - time.monotonic()))

    def _pull(self) -> None:
        for url, tag in self._requests:
            self._offer(Request(url, tag, url.split("/", 3)[2] if self._by_host and url.count("/") > 1 else ""))
            return
        self._exhausted = True

    def _offer(self, request: Request[T]) -> None:
        """Makes `request` ready, or holds it until its host has room."""
        if not self._by_host:
            self._ready.append(request)
        elif self._running[request.host] < self._per_host:
            self._running[request.host] += 1
            self._ready.append(request)
        else:
            self._held.setdefault(request.host, deque()).append(request)
            self._held_count += 1
