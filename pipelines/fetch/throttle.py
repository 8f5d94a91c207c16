"""Politeness to hosts: limits on parallel requests, pauses and robots.txt rules, checked before every request."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from pipelines.fetch.fetcher import FetchOptions


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a URL is never requested; `forbidden` when the site's robots.txt disallows it."""

    reason: str
    forbidden: bool = True


class HostThrottle(Protocol):
    """Permits for requests to hosts; `origin` is scheme, host and port."""

    def acquire(self, origin: str, url: str) -> bool | Refusal:
        """Return True to request `url` now and release the origin afterwards, False to try again after `poll`
        returned the origin, or a Refusal.
        """
        ...

    def release(self, origin: str) -> None:
        """End a request. Callers that have more requests for the origin call `acquire` next."""
        ...

    def cancel(self, origin: str) -> None:
        """Stop waiting for the origin after `acquire` returned False."""
        ...

    def pause(self, origin: str, seconds: float) -> None:
        """Send no request to the origin for so many seconds, as after a 429 or 503."""
        ...

    def poll(self) -> Collection[str]:
        """Return the origins for which `acquire` may succeed now, without blocking."""
        ...

    def wait(self, timeout: float, block: bool) -> float:
        """Return the seconds until `poll` should be called, at most `timeout`; block for as long if `block`."""
        ...


class LocalHostThrottle:
    """A throttle for single pages outside of runs: `per_host` parallel requests, and pauses."""

    def __init__(self, options: FetchOptions) -> None:
        self._per_host = options.per_host
        self._running = Counter[str]()
        self._paused_until: dict[str, float] = {}
        self._pauses: list[tuple[float, str]] = []

    def acquire(self, origin: str, url: str) -> bool | Refusal:
        if self._running[origin] >= self._per_host or self._paused_until.get(origin, 0) > time.monotonic():
            return False
        self._running[origin] += 1
        return True

    def release(self, origin: str) -> None:
        self._running[origin] -= 1
        if not self._running[origin]:
            del self._running[origin]

    def cancel(self, origin: str) -> None:
        pass

    def pause(self, origin: str, seconds: float) -> None:
        until = max(self._paused_until.get(origin, 0), time.monotonic() + seconds)
        self._paused_until[origin] = until
        heapq.heappush(self._pauses, (until, origin))

    def poll(self) -> Collection[str]:
        origins = set[str]()
        while self._pauses and self._pauses[0][0] <= time.monotonic():
            origins.add(heapq.heappop(self._pauses)[1])
        return origins

    def wait(self, timeout: float, block: bool) -> float:
        seconds = max(0.0, min(timeout, self._pauses[0][0] - time.monotonic())) if self._pauses else timeout
        if block:
            time.sleep(seconds)
        return seconds
