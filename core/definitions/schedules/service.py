"""Operations on the schedules of the caller's projects; others are unknown to it (NotFound)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import Identity
from core.definitions.schedules.cron import parse_cron
from core.definitions.schedules.models import ScheduleCreate, ScheduleUpdate
from core.definitions.schedules.repository import ScheduleRepository, TickWithJobs, get_expression, list_next_ticks
from core.errors import BadInput, PreconditionFailed
from core.infra.preconditions import ANY, Versioned, compute_etag
from core.infra.repository import lock_row
from core.tables import Project, Schedule, now

NEXT_TICKS = 5
NO_JOB = "The job of this schedule was deleted. Set another jobId, or an empty one for all jobs."
CHANGED = "The schedule was changed since it was read. Read it again and repeat the change."


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """A schedule of a project with its next ticks and its last one; `problem` says why it cannot fire."""

    project: Project
    schedule: Schedule
    next_ticks: Sequence[datetime]
    last_tick: TickWithJobs | None
    problem: str | None


def get(session: Session, caller: Identity, project_id: str, name: str = "") -> Versioned[ScheduleState]:
    schedules = ScheduleRepository(session, caller.organization_id)
    project = schedules.get_project(project_id)
    return _load(schedules, project, schedules.get(project, name))


def list_of_project(session: Session, caller: Identity, project_id: str) -> Sequence[ScheduleState]:
    """Return all schedules of a project: the one without a name first, the others by name."""
    schedules = ScheduleRepository(session, caller.organization_id)
    project = schedules.get_project(project_id)
    found = [schedules.get(project), *(each for each in schedules.list_of_project(project) if each.name)]
    return [_load(schedules, project, each).value for each in found]


def list_next(session: Session, caller: Identity, limit: int) -> Sequence[tuple[Schedule, Project]]:
    """Return the schedules of all projects that fire next, with their projects."""
    return ScheduleRepository(session, caller.organization_id).list_next(limit)


def create(session: Session, caller: Identity, project_id: str, new: ScheduleCreate) -> Versioned[ScheduleState]:
    """Store a schedule with a name. Raises Conflict when the project has one of this name."""
    schedules = ScheduleRepository(session, caller.organization_id)
    project = _lock(schedules, project_id, new.name, ())
    return _load(schedules, project, schedules.create(project, new))


def update(
    session: Session,
    caller: Identity,
    project_id: str,
    changes: ScheduleUpdate,
    if_match: Collection[str],
    name: str = "",
) -> Versioned[ScheduleState]:
    schedules = ScheduleRepository(session, caller.organization_id)
    project = _lock(schedules, project_id, name, if_match)
    return _load(schedules, project, schedules.update(project, changes, name))


def delete(session: Session, caller: Identity, project_id: str, name: str, if_match: Collection[str]) -> None:
    """Delete a schedule that has a name, with its ticks. Raises NotFound."""
    schedules = ScheduleRepository(session, caller.organization_id)
    schedules.delete(_lock(schedules, project_id, name, if_match), name)


def list_ticks(
    session: Session,
    caller: Identity,
    project_id: str,
    name: str = "",
    *,
    limit: int | None = None,
    before: str | None = None,
) -> Sequence[TickWithJobs]:
    """Return the ticks of a schedule, the newest first."""
    schedules = ScheduleRepository(session, caller.organization_id)
    schedule = schedules.get(schedules.get_project(project_id), name)
    return schedules.list_ticks(schedule, limit=limit, before=before)


def _lock(schedules: ScheduleRepository, project_id: str, name: str, if_match: Collection[str]) -> Project:
    project = schedules.get_project(project_id)
    lock_row(schedules.session, schedules.organization_id, project)
    if if_match and not {ANY, _compute_etag(project, schedules.get(project, name))}.intersection(if_match):
        raise PreconditionFailed(CHANGED)
    return project


def _load(schedules: ScheduleRepository, project: Project, schedule: Schedule) -> Versioned[ScheduleState]:
    state = ScheduleState(
        project,
        schedule,
        list_next_ticks(project, schedule, now(), NEXT_TICKS),
        next(iter(schedules.list_ticks(schedule, limit=1)), None),
        _find_problem(schedules, project, schedule),
    )
    return Versioned(state, _compute_etag(project, schedule))


def _compute_etag(project: Project, schedule: Schedule) -> str:
    return compute_etag(project)[:12] + compute_etag(schedule)[:12]


def _find_problem(schedules: ScheduleRepository, project: Project, schedule: Schedule) -> str | None:
    """Return why the schedule cannot fire: a cron expression of an earlier version, or a job that was deleted."""
    try:
        if expression := get_expression(project, schedule):
            parse_cron(expression)
    except BadInput as error:
        return error.sentence
    return NO_JOB if schedule.job_id and not schedules.has_job(project, schedule.job_id) else None
