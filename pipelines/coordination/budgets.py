"""What each host is asked at most, by all tasks together: leases on places, given out and taken back by the driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Message = tuple[str, dict[str, Any]]

_AHEAD = 1.0  # seconds of starts that are given out at once
_LONGEST_PAUSE = 60.0


@dataclass
class _Host:
    """`held` and `wanted` are numbers of places by task; `recalled` those that a task was asked to give back, 0
    for one that was told that others wait.
    """

    delay: float
    held: dict[str, int] = field(default_factory=dict[str, int])
    wanted: dict[str, int] = field(default_factory=dict[str, int])
    recalled: dict[str, int] = field(default_factory=dict[str, int])
    next_start: float = 0.0
    paused_until: float = 0.0
    pause: float = 0.0


class Budgets:
    """Places at hosts. Every call returns messages for tasks, each named. Not locked.

    Without a delay a place is a task's for as many requests as it likes, one at a time, until it is called back for
    another task. With one it is good for a single request, at the moment that the grant says.
    """

    def __init__(self, places: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._places = places
        self._clock = clock
        self._hosts: dict[str, _Host] = {}

    def open(self, origin: str, delay: float) -> None:
        """The host may be asked from now on; `delay` in seconds between the starts of two requests."""
        self._hosts.setdefault(origin, _Host(delay))

    def want(self, task: str, origin: str, places: int) -> list[Message]:
        """The task would like so many places more."""
        host = self._hosts[origin]
        host.wanted[task] = places
        return list(self._grants(origin, host))

    def give_back(self, task: str, origin: str, places: int, wanted: int | None) -> list[Message]:
        """The task gives back places; `wanted` says how many it would like now, None that this is as before."""
        host = self._hosts[origin]
        host.held[task] = host.held.get(task, 0) - places
        if task in host.recalled:
            host.recalled[task] = max(0, host.recalled[task] - places)
        if wanted is not None:
            host.wanted[task] = wanted
        self._forget(host, task)
        return list(self._grants(origin, host))

    def gone(self, task: str) -> list[Message]:
        """The task is over, and all that it held is free."""
        messages: list[Message] = []
        for origin, host in self._hosts.items():
            if task in host.held or task in host.wanted:
                host.held.pop(task, None)
                host.wanted.pop(task, None)
                host.recalled.pop(task, None)
                messages.extend(self._grants(origin, host))
        return messages

    def late(self, task: str, origin: str) -> list[Message]:
        """A request of the task has begun only now, after its start: those that others hold are put off in turn."""
        host, others = self._hosts[origin], [each for each in self._hosts[origin].held if each != task]
        host.next_start = max(host.next_start, self._clock() + host.delay * (1 + len(others)))
        return [(each, {"putOff": origin, "seconds": host.delay * turn}) for turn, each in enumerate(others, start=1)]

    def back_off(self, origin: str, seconds: float) -> list[Message]:
        """The host is overloaded: nobody asks it for so long, for twice as long as before when it goes on."""
        host, now = self._hosts[origin], self._clock()
        if host.paused_until > now and seconds <= host.paused_until - now:
            return []  # it was said already
        goes_on = now < host.paused_until + host.pause
        host.pause = max(seconds, min(2 * host.pause, _LONGEST_PAUSE)) if goes_on else seconds
        host.paused_until = now + host.pause
        host.next_start = max(host.next_start, host.paused_until)
        return [(task, {"pause": origin, "seconds": host.pause}) for task in {**host.held, **host.wanted}]

    def paused(self, origin: str) -> float:
        """Seconds that the host is still to be left alone."""
        return max(0.0, self._hosts[origin].paused_until - self._clock())

    def _grants(self, origin: str, host: _Host) -> Iterator[Message]:
        """Grants what is free, and calls back what others have too much of."""
        for task in [task for task, wanted in host.wanted.items() if wanted > 0]:
            if host.delay > 0:
                yield from self._starts(task, origin, host)
            else:
                yield from self._share(task, origin, host)

    def _free(self, host: _Host) -> int:
        return self._places - sum(host.held.values())

    def _starts(self, task: str, origin: str, host: _Host) -> Iterator[Message]:
        now = self._clock()
        number = min(host.wanted[task], self._free(host), max(1, int(_AHEAD / host.delay)))
        if number <= 0:
            yield from self._recalls(origin, host, self._places)
            return
        first = max(now, host.next_start)
        host.next_start = first + number * host.delay
        self._take(host, task, number)
        host.wanted.pop(task, None)  # it asks again once these are used
        starts = [first - now + each * host.delay for each in range(number)]
        yield task, {"grant": origin, "places": number, "starts": starts}

    def _share(self, task: str, origin: str, host: _Host) -> Iterator[Message]:
        tasks = {**host.held, **{each: 0 for each, wanted in host.wanted.items() if wanted > 0}}
        fair = -(-self._places // len(tasks))
        number = min(host.wanted[task], self._free(host), fair - host.held.get(task, 0))
        if number > 0:
            self._take(host, task, number)
            yield task, {"grant": origin, "places": number, "starts": []}
        if host.wanted.get(task, 0) > 0 and host.held.get(task, 0) < fair:
            yield from self._recalls(origin, host, fair)

    def _recalls(self, origin: str, host: _Host, fair: int) -> Iterator[Message]:
        """Calls back what is more than `fair`; once told that others wait, a task gives back whatever lies idle."""
        for task, held in host.held.items():
            too_many = max(0, held - fair - host.recalled.get(task, 0))
            if too_many or task not in host.recalled:
                host.recalled[task] = host.recalled.get(task, 0) + too_many
                yield task, {"recall": origin, "places": too_many}

    def _take(self, host: _Host, task: str, number: int) -> None:
        host.held[task] = host.held.get(task, 0) + number
        host.wanted[task] -= number
        self._forget(host, task)

    def _forget(self, host: _Host, task: str) -> None:
        if host.wanted.get(task, 0) <= 0:
            host.wanted.pop(task, None)
        if host.held.get(task, 0) <= 0:
            host.held.pop(task, None)
            if task in host.recalled:
                host.recalled[task] = 0
