"""The queues of executions that wait for a driver, in files of the data folder: every run is a process.

On this machine, those that begin with Spark have one queue, and those that begin without it another, with a limit each:
neither waits for the other. On a cluster all have one. In DATA/queue/<name>, <ticket> is a pidfile of one that waits,
with its Spark settings in the second line, and the time of turns/<name> is when an organization or a project had a
driver last. Organizations take turns, so do the projects of one, and the executions of a project have the order of
their acceptance.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from core.infra.pidfile import hold_pidfile, is_alive
from core.infra.turns import order_by_turns
from orchestration.compute.protocol import LaunchFailed, Wait
from pipelines.contract.request import RunRequest, SparkSpec
from pipelines.language.engines import EngineName

SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 5.0  # between two looks of the first in the queue, and of the last

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Ticket:
    """One attempt that waits; its name sorts within a project."""

    organization_id: str
    project_id: str
    accepted: str
    attempt: str

    @property
    def name(self) -> str:
        return "@".join((self.organization_id, self.project_id, self.accepted, self.attempt))


class DriverQueue:
    """Decides which execution is the next one to get a driver, and when: at most `most` work at once."""

    def __init__(self, data: Path, name: str, most: int | None, count_working: Callable[[], int]) -> None:
        self._most = most
        self._count_working = count_working
        self._folder = _get_folder(data, name)
        self._turns = self._folder / "turns"

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
                    place = 0 if is_next else self.find_place(ticket)
                if not wait(get_pause(place)):
                    return None

    @contextmanager
    def join(self, spec: RunRequest) -> Generator[Ticket]:
        """Wait in the queue until the end of the context; the ticket of a killed process is passed over."""
        accepted = f"{int(spec.accepted_at.timestamp() * 1e6):020}"
        ticket = Ticket(spec.organization_id, spec.project_id, accepted, f"{spec.execution_id}.{spec.attempt}")
        self._turns.mkdir(parents=True, exist_ok=True)
        path, new = self._folder / ticket.name, self._folder / f"{ticket.name}@new"
        with hold_pidfile(new) as lock:
            os.pwrite(lock, f"{os.getpid()}\n{spec.spark.model_dump_json()}".encode(), 0)
            new.rename(path)  # now: others delete a ticket that is not locked
            try:
                yield ticket
            finally:
                path.unlink(missing_ok=True)

    @contextmanager
    def take_turn(self, ticket: Ticket) -> Generator[bool]:
        """Yield whether it is the ticket's turn; nobody else has a turn in this context."""
        if self.find_place(ticket) > 0:
            yield False
            return
        with ExitStack() as stack:
            try:
                stack.enter_context(hold_pidfile(self._turns / "lock"))
            except BlockingIOError:  # another's turn takes longer than a second
                yield False
                return
            yield self.find_place(ticket) == 0

    @property
    def is_limited(self) -> bool:
        return self._most is not None

    def has_room(self) -> bool:
        """Return whether another driver may work now."""
        return self._most is None or self._count_working() < self._most

    def end_turn(self, ticket: Ticket) -> None:
        """Record that the ticket has its driver: others are first now."""
        for name in _list_turns(ticket):
            (self._turns / name).touch()
        (self._folder / ticket.name).unlink(missing_ok=True)

    def find_place(self, ticket: Ticket) -> int:
        """Return how many executions are before this one; the first of them lives."""
        waiting = self._list_tickets()
        while waiting and waiting[0] != ticket and not is_alive(path := self._folder / waiting[0].name):
            path.unlink(missing_ok=True)
            waiting = self._list_tickets()
        return waiting.index(ticket) if ticket in waiting else len(waiting)

    def _list_tickets(self) -> list[Ticket]:
        parts = (path.name.split("@") for path in self._folder.iterdir())
        tickets = [Ticket(*each) for each in parts if len(each) == 4]
        turns = {name: self._read_turn(name) for each in tickets for name in _list_turns(each)}
        tickets.sort(key=lambda each: (*(turns[name] for name in _list_turns(each)), each.accepted, each.name))
        return order_by_turns(tickets, lambda each: (each.organization_id, each.project_id))

    def _read_turn(self, name: str) -> float:
        with suppress(FileNotFoundError):
            return (self._turns / name).stat().st_mtime
        return 0.0


def list_waiting(data: Path, seconds: float) -> list[SparkSpec]:
    """Return the settings of executions that have waited so long for a driver with Spark.

    Nobody waits in vain while one of them is just getting its driver: the list is empty then.
    """
    folder = _get_folder(data, EngineName.SPARK)
    if not _find_waiting(folder, seconds):
        return []
    with suppress(BlockingIOError), hold_pidfile(folder / "turns" / "lock"):
        return _find_waiting(folder, seconds)
    return []


def _find_waiting(folder: Path, seconds: float) -> list[SparkSpec]:
    before, found = time.time() - seconds, list[SparkSpec]()
    names = os.listdir(folder) if folder.is_dir() else ()  # a tenth of the cost of `glob`
    for path in (folder / name for name in names if "@" in name):
        with suppress(FileNotFoundError):  # it has just got one
            _, _, settings = path.read_text().partition("\n")
            if settings and path.stat().st_mtime < before and is_alive(path):
                found.append(SparkSpec.model_validate_json(settings))
    return found


def get_pause(place: int) -> float:
    """Return the seconds until the next look: many that wait shall not keep the machine busy."""
    return min(SHORTEST_PAUSE * (1 + place), LONGEST_PAUSE)


def _get_folder(data: Path, name: str) -> Path:
    return data / "queue" / name


def _list_turns(ticket: Ticket) -> tuple[str, str]:
    return ticket.organization_id, f"{ticket.organization_id}@{ticket.project_id}"
