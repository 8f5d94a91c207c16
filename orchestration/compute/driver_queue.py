"""The queues of executions that wait for a driver.

On this machine, those that begin with Spark have one queue, and those that begin without it another, with a limit each:
neither waits for the other. On a cluster all have one. Organizations take turns, so do the projects of one, and the
executions of a project have the order of their acceptance.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from core.infra.turns import order_by_turns
from orchestration.compute.protocol import LaunchFailed, Wait
from pipelines.contract.request import RunRequest, SparkSpec

SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 5.0  # between two looks of the first in the queue, and of the last

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """One attempt that waits, with the settings of its Spark."""

    organization_id: str
    project_id: str
    accepted_at: datetime
    attempt: str
    spark: SparkSpec
    since: float = field(default_factory=time.monotonic)

    @property
    def owners(self) -> tuple[str, str]:
        return self.organization_id, f"{self.organization_id}@{self.project_id}"


class DriverQueue:
    """Decides which execution is the next one to get a driver, and when: at most `most` work at once."""

    def __init__(self, most: int | None, count_working: Callable[[], int]) -> None:
        self.most = most
        self._count_working = count_working
        self._waiting: list[Ticket] = []
        self._served_at: dict[str, float] = {}  # by organization and by project
        self._lock, self._turn = threading.Lock(), threading.Lock()

    def serve(self, spec: RunRequest, find: Callable[[float], Found | None], wait: Wait) -> Found | None:
        """Wait for the execution's turn, and return the driver that `find` gives it; None when `wait` returns False.

        `find` gets the seconds since another driver had room; where it returns None, it is called again.
        """
        has_room_since: float | None = None
        with self.join(spec) as ticket:
            while True:
                with self.take_turn(ticket) as is_next:
                    if is_next and self.has_room():
                        has_room_since = has_room_since or time.monotonic()
                        try:
                            found = find(time.monotonic() - has_room_since)
                        except LaunchFailed:
                            self.end_turn(ticket)  # it was a turn too: many that fail must not hold up others
                            raise
                        if found is not None:
                            self.end_turn(ticket)
                            return found
                if not wait(get_pause(0 if is_next else self.find_place(ticket))):
                    return None

    @contextmanager
    def join(self, spec: RunRequest) -> Generator[Ticket]:
        """Wait in the queue until the end of the context."""
        attempt = f"{spec.execution_id}.{spec.attempt}"
        ticket = Ticket(spec.organization_id, spec.project_id, spec.accepted_at, attempt, spec.spark)
        with self._lock:
            self._waiting.append(ticket)
        try:
            yield ticket
        finally:
            self._leave(ticket)

    @contextmanager
    def take_turn(self, ticket: Ticket) -> Generator[bool]:
        """Yield whether it is the ticket's turn; nobody else has a turn in this context."""
        if self.find_place(ticket) > 0 or not self._turn.acquire(blocking=False):
            yield False
            return
        try:
            yield self.find_place(ticket) == 0
        finally:
            self._turn.release()

    @property
    def is_limited(self) -> bool:
        return self.most is not None

    def has_room(self) -> bool:
        """Return whether another driver may work now."""
        return self.most is None or self._count_working() < self.most

    def end_turn(self, ticket: Ticket) -> None:
        """Record that the ticket has its driver: others are first now."""
        with self._lock:
            self._served_at.update(dict.fromkeys(ticket.owners, time.monotonic()))
        self._leave(ticket)

    def find_place(self, ticket: Ticket) -> int:
        """Return how many executions are before this one."""
        with self._lock:
            waiting = sorted(
                self._waiting,
                key=lambda each: (*map(self._get_turn, each.owners), each.accepted_at, each.attempt),
            )
        ordered = order_by_turns(waiting, lambda each: (each.organization_id, each.project_id))
        return ordered.index(ticket) if ticket in ordered else len(ordered)

    def list_waiting(self, seconds: float) -> list[SparkSpec]:
        """Return the settings of executions that have waited so long for a driver.

        Nobody waits in vain while one of them is just getting its driver: the list is empty then.
        """
        if self._turn.locked():
            return []
        before = time.monotonic() - seconds
        with self._lock:
            return [each.spark for each in self._waiting if each.since < before]

    def _leave(self, ticket: Ticket) -> None:
        with self._lock:
            if ticket in self._waiting:
                self._waiting.remove(ticket)

    def _get_turn(self, owner: str) -> float:
        return self._served_at.get(owner, 0.0)


def get_pause(place: int) -> float:
    """Return the seconds until the next look: many that wait shall not keep the machine busy."""
    return min(SHORTEST_PAUSE * (1 + place), LONGEST_PAUSE)
