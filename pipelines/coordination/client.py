"""A task's connection to the driver's coordinator, and the host throttle that works over it."""

from __future__ import annotations

import asyncio
import heapq
import os
import select
import socket
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Self

from pipelines.coordination.messages import (
    LENGTH_BYTES,
    SERVICE,
    Acquire,
    Cookies,
    DriverMessage,
    End,
    Endpoint,
    Environment,
    Grant,
    Hello,
    Learned,
    NextStep,
    Pause,
    Recall,
    Release,
    SiteRules,
    Steps,
    TaskMessage,
    decode_driver_message,
    encode_frame,
)
from pipelines.errors import RunError
from pipelines.fetch.fetcher import FetchOptions
from pipelines.fetch.robots import Robots
from pipelines.fetch.throttle import Refusal

_TIMEOUT = 30.0  # seconds for the driver to accept a connection or to confirm the end
_LOOK_SECONDS = 0.01  # between looks at the connection while a task is busy
_IDLE_SECONDS = 0.25  # unused slots return to the driver after this long


class DriverGone(RunError):
    """The driver has closed the connection: its run is over, and the task must end."""

    def __init__(self) -> None:
        super().__init__("the run that this task belongs to is over")


class Connection:
    """One task's connection to the coordinator. For one thread; raises DriverGone."""

    def __init__(self, endpoint: Endpoint, task: str) -> None:
        self._received = bytearray()
        try:
            self._socket = socket.create_connection((endpoint.host, endpoint.port), timeout=_TIMEOUT)
        except OSError:
            raise DriverGone from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.send(Hello(endpoint.token, task))

    def send(self, message: TaskMessage) -> None:
        try:
            self._socket.sendall(encode_frame(message))
        except OSError:
            raise DriverGone from None

    def receive(self, timeout: float = 0) -> list[DriverMessage]:
        """Return the messages that have arrived; wait for some for up to `timeout` seconds."""
        try:
            if not select.select([self._socket], [], [], timeout)[0]:
                return []
            data = self._socket.recv(1 << 20)
        except OSError:
            raise DriverGone from None
        if not data:
            raise DriverGone
        self._received += data
        messages = list[DriverMessage]()
        while len(self._received) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(self._received[:LENGTH_BYTES])
            if len(self._received) < end:
                break
            messages.append(decode_driver_message(self._received[LENGTH_BYTES:end]))
            del self._received[:end]
        return messages

    def finish(self) -> None:
        """Wait until the driver has processed all messages, and close."""
        self.send(End())
        deadline = time.monotonic() + _TIMEOUT
        while not any(isinstance(message, End) for message in self.receive(_TIMEOUT)):
            if time.monotonic() > deadline:
                raise DriverGone
        self.close()

    def close(self) -> None:
        self._socket.close()


def connect(endpoint: Endpoint | None, task: str) -> Connection | None:
    """Open a connection; None without a coordinator, as when rows are read again after their run."""
    try:
        return Connection(endpoint, task) if endpoint else None
    except DriverGone:
        return None


def load_environment(connection: Connection, endpoint: Endpoint) -> None:
    """Set the run's environment variables in this process, before the connection is used for anything else."""
    if not endpoint.has_environment:
        return
    connection.send(Environment())
    deadline = time.monotonic() + _TIMEOUT
    while time.monotonic() < deadline:
        for message in connection.receive(_TIMEOUT):
            if isinstance(message, Environment):
                os.environ.update(message.variables)
                return
    raise DriverGone


class VisitConnection:
    """The connection of one visit of a browser to the coordinator: a message, then its answer. Raises DriverGone."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, endpoint: Endpoint) -> Self:
        """Connect to the coordinator."""
        try:
            connection = cls(*await asyncio.open_connection(endpoint.host, endpoint.port))
        except OSError:
            raise DriverGone from None
        connection._writer.write(encode_frame(Hello(endpoint.token, "visit")))
        return connection

    async def ask(self, message: TaskMessage) -> DriverMessage:
        """Send a message, and wait for its answer."""
        try:
            self._writer.write(encode_frame(message))
            await self._writer.drain()
            length = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES))
            return decode_driver_message(await self._reader.readexactly(length))
        except (OSError, EOFError):
            raise DriverGone from None

    def close(self) -> None:
        self._writer.close()


@dataclass(slots=True)
class _Site:
    """`waiting`: the last `acquire` failed. `used`: a request began since the last check for idle slots."""

    robots: Robots | None = None  # None also when no rule applies
    delay: float = 0.0
    slots: int = 0
    running: int = 0
    keep: int = 0
    turn: bool = False
    asked: bool = False
    waiting: bool = False
    used: bool = False
    paused_until: float = 0.0
    next_start: float = 0.0

    def is_ready(self) -> bool:
        if self.delay or self.paused_until:
            now = time.monotonic()
            if max(self.paused_until, self.next_start) > now:
                return False
        return self.slots > 0 if self.delay else self.running < self.slots


class SharedSession:
    """The session of a run; `load` comes before the connection is used for a throttle."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def load(self) -> list[str]:
        self._connection.send(Cookies())
        deadline = time.monotonic() + _TIMEOUT
        while time.monotonic() < deadline:
            for message in self._connection.receive(_TIMEOUT):
                if isinstance(message, Cookies):
                    return message.lines
        raise DriverGone

    def save(self, lines: Iterable[str]) -> None:
        if new := list(lines):
            self._connection.send(Cookies(new))


class SharedHostThrottle:
    """Throttle for the fetcher of a task: the driver grants slots at hosts to all tasks of the run."""

    def __init__(self, connection: Connection, options: FetchOptions) -> None:
        self._connection = connection
        self._max_slots = min(options.per_host, options.concurrency)
        self._max_pause = options.max_retry_after
        self._sites: dict[str, _Site] = {}
        self._granted = dict[str, _Site]()  # sites with slots
        self._asked = 0
        self._wakeups: list[tuple[float, str]] = []
        self._next_look = 0.0
        self._next_idle_check = 0.0

    def acquire(self, origin: str, url: str) -> bool | Refusal:
        site = self._sites.get(origin)
        if site is None:
            site = self._sites[origin] = _Site()
        if (site.paused_until or site.robots) and (refusal := self._get_refusal(site, url)):
            site.waiting = False
            return refusal
        site.waiting = not site.is_ready()
        if site.waiting:
            self._ask(origin, site)
            return False
        site.running += 1
        site.used = True
        if site.delay:
            site.slots -= 1
            site.next_start = time.monotonic() + site.delay
            self._wake(site.next_start, origin)
            if site.slots == 0:
                self._return(origin, site, 0)
        return True

    def release(self, origin: str) -> None:
        site = self._sites[origin]
        site.running -= 1
        if site.delay:
            self._connection.send(Release(origin, 1))
        elif site.slots > max(site.keep, site.running):
            self._return(origin, site, site.slots - max(site.keep, site.running))

    def cancel(self, origin: str) -> None:
        self._sites[origin].waiting = False

    def pause(self, origin: str, seconds: float) -> None:
        self._pause(origin, seconds)
        self._connection.send(Pause(origin, seconds))

    def poll(self) -> Collection[str]:
        now, origins = time.monotonic(), set[str]()
        if now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            origins.update(self._take(message) for message in self._connection.receive())
        if now >= self._next_idle_check:
            self._next_idle_check = now + _IDLE_SECONDS
            self._return_idle_slots()
        while self._wakeups and self._wakeups[0][0] <= now:
            origins.add(heapq.heappop(self._wakeups)[1])
        return origins

    def wait(self, timeout: float, block: bool) -> float:
        if self._wakeups:
            timeout = min(timeout, max(0.0, self._wakeups[0][0] - time.monotonic()))
        if not block:
            return min(timeout, _LOOK_SECONDS) if self._asked else timeout
        for message in self._connection.receive(timeout):
            self._wake(0.0, self._take(message))
        return timeout

    def _get_refusal(self, site: _Site, url: str) -> Refusal | None:
        if site.paused_until:
            pause = site.paused_until - time.monotonic()
            if pause > self._max_pause:
                return Refusal(f"the site asks to be left alone for {pause:,.0f} s")
        return site.robots.find_refusal(url) if site.robots else None

    def _take(self, message: DriverMessage) -> str:
        """Apply a message; return its origin, at which waiting requests may start now."""
        if isinstance(message, End | Cookies | Environment | Learned | Steps | NextStep):
            raise DriverGone  # answers to `finish` and to requests of other connections, or before a throttle
        origin = message.origin
        site = self._sites[origin]
        match message:
            case SiteRules(robots=robots, delay=delay):
                site.robots = robots if robots.text or robots.refusal else None
                site.delay = delay
                if robots.refusal:
                    self._set_asked(site, False)
            case Grant(slots=slots, keep=keep, wait=wait):
                self._set_asked(site, False)
                site.slots += slots
                site.keep = keep
                site.used = True  # not idle before the next check
                self._granted[origin] = site
                if site.delay:
                    site.turn = True
                    site.next_start = max(site.next_start, time.monotonic() + wait)
                    self._wake(site.next_start, origin)
            case Recall(keep=keep):
                site.keep = keep
                if site.slots > max(keep, site.running):
                    self._return(origin, site, site.slots - max(keep, site.running))
            case Pause(seconds=seconds):
                self._pause(origin, seconds)
        return origin

    def _ask(self, origin: str, site: _Site) -> None:
        """Request as many slots as this task can use, unless a request for some or a turn is pending."""
        missing = self._max_slots - (site.running if site.delay else site.slots)
        if missing > 0 and not (site.asked or site.turn):
            self._set_asked(site, True)
            self._connection.send(Acquire(origin, missing))

    def _set_asked(self, site: _Site, asked: bool) -> None:
        self._asked += asked - site.asked
        site.asked = asked

    def _return(self, origin: str, site: _Site, slots: int) -> None:
        """Return slots, and the turn with the last of them."""
        site.slots -= slots
        turn, site.turn = site.turn and site.slots == 0, site.turn and site.slots > 0
        self._connection.send(Release(origin, slots, turn))
        if site.slots == 0:
            self._granted.pop(origin, None)

    def _return_idle_slots(self) -> None:
        for origin, site in list(self._granted.items()):
            if not (site.used or site.waiting or (site.running and not site.delay)):
                self._return(origin, site, site.slots)
            site.used = False

    def _pause(self, origin: str, seconds: float) -> None:
        site = self._sites[origin]
        site.paused_until = max(site.paused_until, time.monotonic() + seconds)
        # too long a pause refuses the waiting requests at once
        self._wake(site.paused_until if seconds <= self._max_pause else 0.0, origin)

    def _wake(self, when: float, origin: str) -> None:
        heapq.heappush(self._wakeups, (when, origin))


class SharedServiceThrottle(SharedHostThrottle):
    """Throttle for requests to services over all tasks of the run; their limits are apart from those of sites."""

    def acquire(self, origin: str, url: str) -> bool | Refusal:
        return super().acquire(SERVICE + origin, url)

    def release(self, origin: str) -> None:
        super().release(SERVICE + origin)

    def cancel(self, origin: str) -> None:
        super().cancel(SERVICE + origin)

    def pause(self, origin: str, seconds: float) -> None:
        super().pause(SERVICE + origin, seconds)

    def poll(self) -> Collection[str]:
        return {origin.removeprefix(SERVICE) for origin in super().poll()}
