"""Leave to ask a host, in a task: what the site forbids, and the places that the driver grants of it."""

from __future__ import annotations

import heapq
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from pipelines.fetch.options import FetchOptions
from pipelines.fetch.robots import Robots
from pipelines.spark.channel import Channel

_LOOK_SECONDS = 0.01  # how often a busy task looks for messages


@dataclass
class _Site:
    """`places` may be in use at a time. With a `delay` each is good for one request, not before its start."""

    robots: Robots | None = None
    delay: float = 0.0
    places: int = 0
    running: int = 0
    recalled: int = 0
    shared: bool = False
    starts: deque[float] = field(default_factory=deque[float])
    not_before: float = 0.0

    def free(self, now: float) -> bool:
        if self.not_before > now:
            return False
        if self.delay:
            return bool(self.starts) and self.starts[0] <= now
        return self.running < self.places - self.recalled


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
        if site.robots is None:
            return False
        now = time.monotonic()
        if site.robots.refusal or site.not_before - now > self._longest_pause:
            return site.robots.refusal or f"the site asks to be left alone for {site.not_before - now:,.0f} s"
        if not site.free(now):
            if origin not in self._asked and (site.delay or site.places < self._places):
                self._send("want", origin, places=self._places - (0 if site.delay else site.places))
            return False
        if refusal := site.robots.forbids(url):
            return refusal
        self._start(origin, site, now)
        return True

    def leave(self, origin: str, waiting: bool) -> None:
        site = self._sites[origin]
        site.running -= 1
        if site.delay:
            site.places -= 1
            self._send("giveBack", origin, places=1, wanted=None)
        elif site.recalled:
            self._return_recalled(origin, site)
        elif site.shared and not waiting and not site.running:
            self._return_all(origin, site)

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

    def _start(self, origin: str, site: _Site, now: float) -> None:
        site.running += 1
        if site.delay:
            site.starts.popleft()
            site.not_before = now + site.delay
            self._at(site.not_before, origin)

    def _took(self, message: dict[str, Any]) -> str:
        """Takes in what the coordinator says; returns the origin that it speaks of."""
        kind = next(kind for kind in ("site", "grant", "recall", "pause") if kind in message)
        origin: str = message[kind]
        site = self._sites[origin]
        if kind == "site":
            site.robots = Robots(message["agent"], message["text"], message["refusal"])
            site.delay = message["delay"]
        elif kind == "grant":
            self._granted(origin, site, message["places"], message["starts"])
        elif kind == "recall":
            site.shared = True
            site.recalled = min(site.recalled + message["places"], site.places)
            self._return_recalled(origin, site)
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

    def _return_recalled(self, origin: str, site: _Site) -> None:
        """Gives back what was called back, as far as no request runs on it."""
        if not site.running:
            self._return_all(origin, site)
        elif (places := min(site.recalled, site.places - site.running)) > 0:
            site.places -= places
            site.recalled -= places
            self._send("giveBack", origin, places=places, wanted=self._places - site.places)

    def _return_all(self, origin: str, site: _Site) -> None:
        places, site.places, site.recalled = site.places, 0, 0
        if places:
            self._channel.send({"kind": "giveBack", "origin": origin, "places": places, "wanted": 0})
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
