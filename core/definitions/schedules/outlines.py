"""Outlines of schedules: the fields by which Dagster shows and evaluates them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.identity.organizations import is_shared
from core.definitions.schedules.repository import find_cron
from core.tables import Job, Organization, Project, Schedule

HAS_EXPRESSION = Schedule.cron_schedule.is_not(None) | ((Schedule.name == "") & Project.cron_schedule.is_not(None))


@dataclass(frozen=True, slots=True)
class ScheduleOutline:
    """A schedule that can be fired; its name is that of its project's `group` of assets, then its own, if any."""

    schedule_id: str
    name: str
    group: str
    project_id: str
    project_name: str
    cron: str
    timezone: str
    enabled: bool
    job_id: str | None
    job_name: str | None


def load_schedules(session: Session) -> list[ScheduleOutline]:
    """Return the outlines of all schedules that have a cron expression, oldest first."""
    query = select(Schedule, Project, Organization.slug, Job.name)
    query = query.join(Project, Project.id == Schedule.project_id).join(
        Organization, Organization.id == Schedule.organization_id
    )
    query = query.outerjoin(Job, Job.id == Schedule.job_id).where(HAS_EXPRESSION)
    shared = is_shared(session)
    found: list[ScheduleOutline] = []
    for schedule, project, organization_slug, job_name in session.execute(query.order_by(Schedule.id)).tuples():
        cron = find_cron(project, schedule)
        if cron is None:
            continue
        group = f"{organization_slug}__{project.slug}" if shared else project.slug
        outline = ScheduleOutline(
            schedule_id=schedule.id,
            name=f"{group}__{schedule.name}" if schedule.name else group,
            group=group,
            project_id=project.id,
            project_name=project.name,
            cron=cron.expression,
            timezone=schedule.timezone,
            enabled=schedule.enabled,
            job_id=schedule.job_id,
            job_name=job_name,
        )
        found.append(outline)
    return found
