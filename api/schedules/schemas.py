"""The schedules of a project as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from api.kit.schemas import Record
from core.definitions.schedules.repository import TickWithJobs, get_expression
from core.definitions.schedules.service import ScheduleState


class TickJobRecord(Record):
    job_id: str
    """Id of the job."""
    job_name: str
    """Name of the job at the tick."""
    state: str
    """WAITING, SUBMITTED, SKIPPED, or REFUSED when the job could not be executed."""
    reason: str | None
    """Why it was skipped or refused; null otherwise."""
    code: str | None
    """Stable code of the reason; null without one."""
    execution_id: str | None
    """Id of its execution; null unless it was submitted."""
    after: list[str]
    """Ids of the jobs of the same tick whose output it reads, and so waits for."""


class TickRecord(Record):
    id: str
    """Id of the tick."""
    tick_at: datetime
    """When it was due."""
    state: str
    """FIRED, SKIPPED, or MISSED when it could not be fired in time."""
    reason: str | None
    """Why it was not fired; null when it was."""
    created_at: datetime
    jobs: list[TickJobRecord]
    """What it did with each job, by name."""


class ScheduleRecord(Record):
    project_id: str
    name: str | None
    """Its name; null for the one whose times are the project's `cronSchedule`."""
    cron_schedule: str | None
    enabled: bool
    """Whether it fires. The toggle in Dagster's UI is the same switch."""
    timezone: str
    job_id: str | None
    """The one job that is executed; null for all enabled jobs of the project."""
    parameters: dict[str, Any]
    """Parameters of its executions, before those of the jobs and the project."""
    execution_request_json: str | None
    overlap: str
    missed: str
    next_ticks: list[datetime]
    """The next times at which it fires; empty while it does not."""
    last_tick: TickRecord | None
    """Its last tick; null before the first one."""
    problem: str | None
    """Why it cannot fire: a cron expression of an earlier version, or a job that was deleted; null otherwise."""


def build_schedule_record(state: ScheduleState) -> ScheduleRecord:
    return ScheduleRecord.from_row(
        state.schedule,
        name=state.schedule.name or None,
        cron_schedule=get_expression(state.project, state.schedule),
        next_ticks=list(state.next_ticks),
        last_tick=build_tick_record(state.last_tick) if state.last_tick else None,
        problem=state.problem,
    )


def build_tick_record(found: TickWithJobs) -> TickRecord:
    return TickRecord.from_row(found.tick, jobs=[TickJobRecord.from_row(job) for job in found.jobs])
