"""Limits of every host over all tasks of a run: parallel requests, delays between requests, pauses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from pipelines.coordination.messages import DriverMessage, Grant, Pause, Recall

_BURST_SECONDS = 0.05  # of starts that one turn is good for: with tiny delays, messages would be the limit
_MAX_PAUSE = 60.0


class Task(Protocol):
    """A connected task."""

    def send(self, message: DriverMessage) -> None:
        """Send without waiting."""
        ...


@dataclass
class _Host:
    """Slots `held` and `wanted` by task, and how many of them each task may `keep`.

    With a delay one task at a time has the turn to start requests, so that lateness of a task never shortens a delay.
    """

    delay: float
    held: dict[Task, int] = field(default_factory=dict[Task, int])
    wanted: dict[Task, int] = field(default_factory=dict[Task, int])
    keep: dict[Task, int] = field(default_factory=dict[Task, int])
    turn: Task | None = None
    next_start: float = 0.0
    paused_until: float = 0.0
    pause: float = 0.0


class HostLimits:
    """Grants slots in the order of requests and sends the answers. Not thread-safe.

    Without a delay, a task uses a slot for one request after another. When a task gets less than its equal share,
    those that have more are asked to return slots. With more tasks than slots, each slot returns after one request.
    """

    def __init__(self, per_host: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_host = per_host
        self._clock = clock
        self._hosts: dict[str, _Host] = {}

    def open(self, origin: str, delay: float) -> None:
        """Allow requests to a host, with `delay` seconds between the starts of two."""
        self._hosts.setdefault(origin, _Host(delay))

    def acquire(self, task: Task, origin: str, slots: int) -> None:
        host = self._hosts[origin]
        host.wanted[task] = slots
        self._grant(origin, host)

    def release(self, task: Task, origin: str, slots: int, turn: bool = False) -> None:
        """Take back slots; a returned turn means that the task's last request has just begun."""
        host = self._hosts[origin]
        host.held[task] = host.held.get(task, 0) - slots
        if host.held[task] <= 0:
            host.held.pop(task)
            host.keep.pop(task, None)
        if turn and host.turn is task:
            host.turn = None
            host.next_start = max(host.next_start, self._clock() + host.delay)
        self._grant(origin, host)

    def remove(self, task: Task, origins: set[str]) -> None:
        """Free all that an ended task held at these hosts."""
        for origin in origins:
            if (host := self._hosts.get(origin)) is None:
                continue
            host.wanted.pop(task, None)
            self.release(task, origin, host.held.get(task, 0), turn=True)

    def pause(self, origin: str, seconds: float, tasks: Iterable[Task]) -> None:
        """Stop all tasks' requests to an overloaded host; repeated overload doubles the pause, up to a minute."""
        host, now = self._hosts[origin], self._clock()
        if host.paused_until > now and seconds <= host.paused_until - now:
            return  # requests in flight report the same overload
        is_repeated = now < host.paused_until + host.pause
        host.pause = max(seconds, min(2 * host.pause, _MAX_PAUSE)) if is_repeated else seconds
        host.paused_until = now + host.pause
        host.next_start = max(host.next_start, host.paused_until)
        for task in tasks:
            task.send(Pause(origin, host.pause))

    def get_pause(self, origin: str) -> float:
        """Return the rest of a host's pause in seconds."""
        return max(0.0, self._hosts[origin].paused_until - self._clock())

    def _grant(self, origin: str, host: _Host) -> None:
        if not host.wanted:
            return
        if host.delay:
            self._grant_turn(origin, host)
        else:
            self._grant_shares(origin, host)

    def _grant_turn(self, origin: str, host: _Host) -> None:
        free = self._per_host - sum(host.held.values())
        if host.turn is not None or free <= 0:
            return
        task = next(iter(host.wanted))
        slots = min(host.wanted.pop(task), free, max(1, int(_BURST_SECONDS / host.delay)))
        host.turn = task
        host.held[task] = host.held.get(task, 0) + slots
        task.send(Grant(origin, slots, wait=max(0.0, host.next_start - self._clock())))

    def _grant_shares(self, origin: str, host: _Host) -> None:
        held, free = host.held, self._per_host - sum(host.held.values())
        share = self._per_host // len(held.keys() | host.wanted.keys())
        starving = [task for task in host.wanted if held.get(task, 0) < max(share, 1)]
        # tasks below their share first; the rest is divided among tasks that want more
        for most, tasks in ((max(share, 1), starving), (self._per_host, list(host.wanted))):
            for task in tasks:
                slots = min(free, host.wanted.get(task, 0), most - held.get(task, 0))
                if slots <= 0:
                    continue
                free -= slots
                held[task] = held.get(task, 0) + slots
                del host.wanted[task]
                host.keep[task] = held[task] if share else 0
                task.send(Grant(origin, slots, host.keep[task]))
        if free == 0 and any(task in host.wanted for task in starving):
            for task, keep in host.keep.items():
                if keep > share:
                    host.keep[task] = share
                    task.send(Recall(origin, share))
