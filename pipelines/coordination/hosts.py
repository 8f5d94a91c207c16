"""Leave to ask a host: who grants it, and what a fetcher asks before each request."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from typing import Protocol

from pipelines.fetch.fetcher import FetchOptions


class Hosts(Protocol):
    """What a fetcher asks before it turns to a host; `origin` is scheme, host and port."""

    def enter(self, origin: str, url: str) -> bool | str:
        """True: ask now, and call `leave` afterwards. False: later, once `news` names the origin. A text: never, and
        why not.
        """
        ...

    def leave(self, origin: str, waiting: bool) -> None:
        """A request is over; `waiting`: more of the origin wait."""
        ...

    def forget(self, origin: str) -> None:
        """What waited for the origin does so no more."""
        ...

    def back_off(self, origin: str, seconds: float) -> None:
        """The host wants to be left alone for so long."""
        ...

    def news(self) -> set[str]:
        """Origins that may be entered again. Returns at once."""
        ...

    def wait(self, longest: float, sleep: bool) -> float:
        """Seconds until there may be news, at most `longest`; sleeps as long if told to."""
        ...


class OwnHosts:
    """Leave for a fetcher that shares its hosts with no other: so many requests at a time, and pauses."""

    def __init__(self, options: FetchOptions) -> None:
        self._per_host = options.per_host
        self._running: Counter[str] = Counter()
        self._paused: dict[str, float] = {}
        self._pauses: list[tuple[float, str]] = []

    def enter(self, origin: str, url: str) -> bool | str:
        if self._running[origin] >= self._per_host or self._paused.get(origin, 0) > time.monotonic():
            return False
        self._running[origin] += 1
        return True

    def leave(self, origin: str, waiting: bool) -> None:
        self._running[origin] -= 1
        if not self._running[origin]:
            del self._running[origin]

    def forget(self, origin: str) -> None:
        """Nobody else has waited for it."""

    def back_off(self, origin: str, seconds: float) -> None:
        until = max(self._paused.get(origin, 0), time.monotonic() + seconds)
        self._paused[origin] = until
        heapq.heappush(self._pauses, (until, origin))

    def news(self) -> set[str]:
        over = set[str]()
        while self._pauses and self._pauses[0][0] <= time.monotonic():
            over.add(heapq.heappop(self._pauses)[1])
        return over

    def wait(self, longest: float, sleep: bool) -> float:
        seconds = max(0.0, min(longest, self._pauses[0][0] - time.monotonic())) if self._pauses else longest
        if sleep:
            time.sleep(seconds)
        return seconds
