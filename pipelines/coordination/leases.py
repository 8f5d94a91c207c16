"""Leave to ask a host, in a task: what the site forbids, and the places that the driver grants of it."""

from __future__ import annotations

import heapq
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from pipelines.coordination.channel import Channel
from pipelines.fetch.fetcher import FetchOptions
from pipelines.fetch.robots import Robots

_LOOK_SECONDS = 0.01  # how often a busy task looks for messages
_LATE_SECONDS = 0.1  # after its start, before other tasks are told of a request


@dataclass(slots=True)
class _Site:
    """`places` may be in use at a time. With a `delay` each is good for one request, not before its start.

    `robots`: None where there are no rules, or none yet. `waiting`: requests are held back for want of a place.
    `shared`: another task has none.
    """

    robots: Robots | None = None
    delay: float = 0.0
    places: int = 0
    running: int = 0
    recalled: int = 0
    waiting: bool = False
    shared: bool = False
    starts: deque[float] = field(default_factory=deque[float])
    not_before: float = 0.0
    next_start: float = 0.0

    def free(self) -> bool:
        if self.delay or self.not_before:
            now = time.monotonic()
            if max(self.not_before, self.next_start) > now:
                return False
            if self.delay:
                return bool(self.starts) and self.starts[0] <= now
        return self.running < self.places - self.recalled

    def wants(self, places: int) -> bool:
        """Whether to ask for more, up to so many places; a start that is still to come is waited for before."""
        return not self.starts if self.delay else self.places < places

    def spare(self) -> int:
        """Places to give back: all that nothing waits for, where others want them, or what was called back."""
        idle = not self.waiting and not self.running
        return self.places if idle and self.shared else min(self.recalled, self.places - self.running)


class Leases:
    """What a fetcher asks before each request, as `Hosts` says; answers come from the driver's coordinator."""

    def __init__(self, channel: Channel, options: FetchOptions) -> None:
        self._channel = channel
        self._places = min(options.per_host, options.concurrency)
        self._longest_pause = options.max_retry_after
        self._sites: dict[str, _Site] = {}
        self._asked = set[str]()
        self._times: list[tuple[float, str]] = []
        self._looked = 0.0

    def enter(self, origin: str, url: str) -> bool | str:
        site = self._sites.get(origin)
        if site is None:
            site = self._sites[origin] = _Site()
            self._send("open", origin, places=self._places)
        refusal = self._refusal(site, url) if site.robots or site.not_before else None
        if refusal:
            site.waiting = False
            self._return_spare(origin, site)  # the place that was waited for lies idle now
            return refusal
        if not site.free():
            site.waiting = True
            if origin not in self._asked and site.wants(self._places):
                self._send("want", origin, places=self._places - (0 if site.delay else site.places))
            return False
        site.running += 1
        if site.delay:
            self._start(origin, site)
        return True

    def leave(self, origin: str, waiting: bool) -> None:
        site = self._sites[origin]
        site.running -= 1
        site.waiting = waiting
        if site.delay:
            site.places -= 1
            self._send("giveBack", origin, places=1, wanted=None)
        if site.shared or site.recalled:
            self._return_spare(origin, site)

    def forget(self, origin: str) -> None:
        site = self._sites[origin]
        site.waiting = False
        self._return_spare(origin, site)

    def back_off(self, origin: str, seconds: float) -> None:
        self._pause(origin, seconds)
        self._send("backOff", origin, seconds=seconds)

    def news(self) -> set[str]:
        now, origins = time.monotonic(), set[str]()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            origins.update(self._took(message) for message in self._channel.received())
        while self._times and self._times[0][0] <= now:
            origins.add(heapq.heappop(self._times)[1])
        return origins

    def wait(self, longest: float, sleep: bool) -> float:
        if self._times:
            longest = min(longest, max(0.0, self._times[0][0] - time.monotonic()))
        if not sleep:
            return min(longest, _LOOK_SECONDS) if self._asked else longest
        for message in self._channel.received(longest):
            self._at(0.0, self._took(message))
        return longest

    def _refusal(self, site: _Site, url: str) -> str | None:
        """Why `url` must never be asked for."""
        pause = site.not_before - time.monotonic()
        if pause > self._longest_pause:
            return f"the site asks to be left alone for {pause:,.0f} s"
        return site.robots.forbids(url) if site.robots else None

    def _start(self, origin: str, site: _Site) -> None:
        now = time.monotonic()
        late = now - site.starts.popleft()
        site.next_start = now + site.delay
        self._at(site.next_start, origin)
        if late > max(_LATE_SECONDS, site.delay / 10):
            self._send("late", origin)

    def _took(self, message: dict[str, Any]) -> str:
        """Takes in what the coordinator says; returns the origin that it speaks of."""
        kind = next(kind for kind in ("site", "grant", "recall", "putOff", "pause") if kind in message)
        origin: str = message[kind]
        site = self._sites[origin]
        if kind == "site":
            robots = Robots(message["agent"], message["text"], message["refusal"], message["unreached"])
            site.robots = robots if robots.text or robots.refusal else None
            site.delay = message["delay"]
        elif kind == "grant":
            self._granted(origin, site, message["places"], message["starts"])
            self._return_spare(origin, site)
        elif kind == "recall":
            site.shared = True
            site.recalled = min(site.recalled + message["places"], site.places)
            self._return_spare(origin, site)
        elif kind == "putOff":
            earliest = time.monotonic() + message["seconds"]
            site.starts = deque(max(start, earliest) for start in site.starts)
            self._at(earliest, origin)
        else:
            self._pause(origin, message["seconds"])
        return origin

    def _granted(self, origin: str, site: _Site, places: int, starts: list[float]) -> None:
        self._asked.discard(origin)
        site.places += places
        now = time.monotonic()
        for seconds in starts:
            site.starts.append(now + seconds)
            self._at(now + seconds, origin)

    def _return_spare(self, origin: str, site: _Site) -> None:
        places = site.spare()
        if places <= 0:
            return
        site.places -= places
        site.recalled = max(0, site.recalled - places)
        wanted = self._places - site.places if site.waiting or site.running else 0
        if site.delay:
            for _ in range(places):
                site.starts.pop()
            wanted = 0
        self._send("giveBack", origin, places=places, wanted=wanted)
        if not wanted:
            self._asked.discard(origin)

    def _send(self, kind: str, origin: str, **fields: Any) -> None:
        self._channel.send({"kind": kind, "origin": origin, **fields})
        if fields.get("wanted") or kind in ("open", "want"):
            self._asked.add(origin)

    def _pause(self, origin: str, seconds: float) -> None:
        site = self._sites[origin]
        site.not_before = max(site.not_before, time.monotonic() + seconds)
        self._at(site.not_before if seconds <= self._longest_pause else 0.0, origin)

    def _at(self, when: float, origin: str) -> None:
        heapq.heappush(self._times, (when, origin))
