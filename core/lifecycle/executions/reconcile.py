"""Executions that will not change by themselves: their driver is lost, they run for too long, or there is room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select

from core.errors import BadInput, Detail
from core.infra.database import Database
from core.infra.settings import Settings
from core.lifecycle.executions.pools import find_next
from core.lifecycle.executions.reports import fail
from core.lifecycle.executions.retries import FailureCode
from core.lifecycle.executions.states import Trigger, get_sources
from core.lifecycle.executions.transitions import admit, fail_attempt, move
from core.tables import Execution, Task
from core.tables.states import State

MAX_HOURS = 24 * 365 * 100
LOST = (
    "The execution lost its driver: nothing was heard from it for {seconds:.0f} seconds, and {found}. "
    "Execute the job again."
)
TIMED_OUT = "The attempt was stopped: it took longer than the {seconds} seconds that its job allows."
TOO_LONG = "The execution was running for more than {hours} hours and was given up."
IS_RUNNING = Execution.state == State.RUNNING


@dataclass(frozen=True, slots=True)
class Sighting:
    """Whether a driver, or the run that starts it, is there; `found` is a clause for the failure."""

    is_there: bool
    found: str


@dataclass(frozen=True, slots=True)
class MarkedZombies:
    """The tasks whose executions were marked as failed."""

    marked_task_ids: tuple[int, ...]
    timeout_hours: int

    @property
    def message(self) -> str:
        count = len(self.marked_task_ids)
        tasks = "1 task" if count == 1 else f"{count} tasks"
        return f"Marked {tasks} as failed that ran for more than {self.timeout_hours} hours."


def fail_lost(
    database: Database,
    settings: Settings,
    now: datetime,
    up_since: datetime,
    look: Callable[[Execution], Sighting | None],
) -> list[str]:
    """Fail every claimed execution without a heartbeat for too long; return their ids.

    `look` is asked for their drivers: one that is there may be silent for longer, as a start on a busy machine is. It
    returns None for an execution that another instance follows.
    Only time since `up_since` counts: before that the service was down and could not receive heartbeats.
    Raises Unavailable while the database is away, also when it is too early to fail any.
    """
    limit = now - timedelta(seconds=settings.executions.lost_after_seconds)
    hung = now - timedelta(seconds=settings.executions.hung_after_seconds)
    with database.read() as session:
        claimed = (Execution.state.in_(get_sources(Trigger.FAIL)), Execution.claimed_at.is_not(None))
        silent = (*claimed, Execution.heartbeat_at < limit)
        executions = session.scalars(select(Execution).where(*silent).order_by(Execution.id)).all()
    if up_since > limit:  # only now: the database was asked, so that an outage shows
        return []
    failed: list[str] = []
    for each in executions:
        sighting = look(each)
        if sighting is None:
            continue
        earliest = min(hung, limit) if sighting.is_there else limit
        if each.heartbeat_at is None or each.heartbeat_at >= earliest or (sighting.is_there and up_since > earliest):
            continue
        sentence = LOST.format(seconds=(now - each.heartbeat_at).total_seconds(), found=sighting.found)
        silent = Execution.heartbeat_at == each.heartbeat_at
        with database.write() as session:
            execution = session.get(Execution, each.id)
            if execution is not None and fail_attempt(
                session, execution, FailureCode.DRIVER_LOST, silent, error_message=sentence
            ):
                failed.append(each.id)
    return failed


def list_overdue(database: Database, now: datetime, grace: timedelta = timedelta()) -> Sequence[Execution]:
    """Return the claimed executions whose attempt has taken longer than its timeout and the grace."""
    with database.read() as session:
        claimed = (Execution.state.in_(get_sources(Trigger.POSTPONE)), Execution.claimed_at.is_not(None))
        limited = session.scalars(select(Execution).where(*claimed, Execution.timeout_seconds > 0)).all()
    return [each for each in limited if is_overdue(each, now - grace)]


def is_overdue(execution: Execution, now: datetime) -> bool:
    """Return whether the attempt has taken longer than its timeout, which counts from its claim."""
    if not execution.timeout_seconds or execution.claimed_at is None:
        return False
    return now - execution.claimed_at > timedelta(seconds=execution.timeout_seconds)


def fail_overdue(database: Database, execution: Execution) -> State:
    """End the attempt as failed by its timeout, unless it has ended already."""
    sentence = TIMED_OUT.format(seconds=execution.timeout_seconds)
    return fail(database, execution.id, sentence, execution.attempt, FailureCode.TIMEOUT)


def admit_waiting(database: Database) -> None:
    """Begin the queued executions that have room, one transaction each."""
    admitted = True
    while admitted:
        with database.read() as session:
            found = find_next(session)
        if found is None:
            return
        with database.write() as session:
            admitted = admit(session, found)


def fail_zombies(database: Database, organization_id: str, timeout_hours: int, now: datetime) -> MarkedZombies:
    """Fail the organization's executions that have been RUNNING for longer than this; they are not retried.

    Time counts from the start, or from the task's scheduled time where the start is unknown.
    """
    if not 0 <= timeout_hours <= MAX_HOURS:
        message = f"'timeoutHours' is a number of hours from 0 to {MAX_HOURS}."
        raise BadInput(message, [Detail("timeoutHours", message)])
    since = func.coalesce(Execution.started_at, Task.scheduled_time)
    query = select(Execution, since).outerjoin(Task, Task.id == Execution.task_id)
    running = query.where(Execution.organization_id == organization_id, IS_RUNNING)
    too_long = running.where(since < now - timedelta(hours=timeout_hours)).order_by(Execution.id)
    values = {
        "completed_at": now,
        "error_message": TOO_LONG.format(hours=timeout_hours),
        "error_code": FailureCode.GIVEN_UP,
    }
    with database.write() as session:
        marked = [
            execution.task_id
            for execution, started_at in session.execute(too_long).tuples().all()
            if move(session, execution, Trigger.FAIL, IS_RUNNING, started_at=started_at, **values)
        ]
    return MarkedZombies(tuple(task_id for task_id in marked if task_id is not None), timeout_hours)
