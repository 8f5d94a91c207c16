"""Zombies: what says that it is running for longer than anything should."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select

from core.errors import BadInput, Detail
from core.executions.states import Event, State
from core.executions.transitions import move
from core.infra.database import Database
from core.tables import Execution, Task

LONGEST_HOURS = 24 * 365 * 100
SENTENCE = "The execution was running for more than {hours} hours and was given up."
STILL_RUNNING = Execution.state == State.RUNNING


@dataclass(frozen=True, slots=True)
class Cleanup:
    """What a clean-up has marked as failed."""

    marked_task_ids: tuple[int, ...]
    timeout_hours: int

    @property
    def message(self) -> str:
        count = len(self.marked_task_ids)
        tasks = "1 task" if count == 1 else f"{count} tasks"
        return f"Marked {tasks} as failed that ran for more than {self.timeout_hours} hours."


def mark_zombies(database: Database, organization_id: str, timeout_hours: int, now: datetime) -> Cleanup:
    """Fails the organization's executions that are RUNNING for longer than this.

    Time counts from the start, or from the task's scheduled time where the start is not known.
    """
    if not 0 <= timeout_hours <= LONGEST_HOURS:
        message = f"'timeoutHours' is a number of hours from 0 to {LONGEST_HOURS}."
        raise BadInput(message, [Detail("timeoutHours", message)])
    since = func.coalesce(Execution.started_at, Task.scheduled_time)
    query = select(Execution, since).outerjoin(Task, Task.id == Execution.task_id)
    running = query.where(Execution.organization_id == organization_id, STILL_RUNNING)
    too_long = running.where(since < now - timedelta(hours=timeout_hours))
    ended = {"completed_at": now, "error_message": SENTENCE.format(hours=timeout_hours)}
    with database.write() as session:
        marked = [
            execution.task_id
            for execution, started_at in session.execute(too_long.order_by(Execution.id)).tuples().all()
            if move(session, execution, Event.FAIL, STILL_RUNNING, started_at=started_at, **ended)
        ]
    return Cleanup(tuple(task_id for task_id in marked if task_id is not None), timeout_hours)
