"""The queues of executions that wait for a driver, in files of the data folder: every run is a process.

Those that begin with Spark have one queue, and those that begin without it another, with a limit each: neither waits
for the other. In DATA/queue/<engine>, <ticket> is a pidfile of one that waits, with its Spark settings in the second
line, and the time of turns/<name> is when an organization or a project had a driver last. Organizations take turns, so
do the projects of one, and the executions of a project have the order of their acceptance.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from core.infra.pidfile import hold_pidfile, is_alive
from core.infra.settings import Settings
from driver.spec import ExecutionSpec, SparkSpec
from orchestration.compute.capacity import count_drivers, count_working
from pipelines.language.engines import EngineName

SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 1.0  # between two looks of the first in the queue, and of the last


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
    """Decides which of the executions that begin with an engine is the next one to get a driver, and when."""

    def __init__(self, settings: Settings, engine: EngineName) -> None:
        self._data = settings.data.resolve()
        self._engine = engine
        self._most = count_drivers(settings, engine)
        self._folder = _get_folder(self._data, engine)
        self._turns = self._folder / "turns"

    @contextmanager
    def join(self, spec: ExecutionSpec) -> Generator[Ticket]:
        """Wait in the queue until the end of the context; the ticket of a killed process is passed over."""
        accepted = f"{int(spec.accepted_at.timestamp() * 1e6):020}"
        ticket = Ticket(spec.organization_id, spec.project_id, accepted, f"{spec.execution_id}.{spec.attempt}")
        self._turns.mkdir(parents=True, exist_ok=True)
        path = self._folder / ticket.name
        with hold_pidfile(path) as lock:
            os.pwrite(lock, f"{os.getpid()}\n{spec.spark.model_dump_json()}".encode(), 0)
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
        return self._most is None or count_working(self._data, self._engine) < self._most

    def end_turn(self, ticket: Ticket) -> None:
        """Record that the ticket has its driver: others are first now."""
        for name in _list_turns(ticket):
            (self._turns / name).touch()
        (self._folder / ticket.name).unlink(missing_ok=True)

    def find_place(self, ticket: Ticket) -> int:
        """Return how many living executions are before this one."""
        before = 0
        for each in self._list_tickets():
            if each == ticket:
                return before
            path = self._folder / each.name
            if is_alive(path):
                before += 1
            else:
                path.unlink(missing_ok=True)
        return before

    def _list_tickets(self) -> list[Ticket]:
        parts = (path.name.split("@") for path in self._folder.iterdir())
        tickets = [Ticket(*each) for each in parts if len(each) == 4]
        turns = {name: self._read_turn(name) for each in tickets for name in _list_turns(each)}
        return sorted(
            tickets, key=lambda each: (*(turns[name] for name in _list_turns(each)), each.accepted, each.name)
        )

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
    for path in folder.glob("*@*"):
        with suppress(FileNotFoundError):  # it has just got one
            _, _, settings = path.read_text().partition("\n")
            if settings and path.stat().st_mtime < before and is_alive(path):
                found.append(SparkSpec.model_validate_json(settings))
    return found


def get_pause(place: int) -> float:
    """Return the seconds until the next look: many that wait shall not keep the machine busy."""
    return min(SHORTEST_PAUSE * (1 + place), LONGEST_PAUSE)


def _get_folder(data: Path, engine: EngineName) -> Path:
    return data / "queue" / engine


def _list_turns(ticket: Ticket) -> tuple[str, str]:
    return ticket.organization_id, f"{ticket.organization_id}@{ticket.project_id}"
