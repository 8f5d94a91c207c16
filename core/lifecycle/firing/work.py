"""Whether an instance has anything that the launcher has to follow."""

from __future__ import annotations

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from core.tables import Backfill, CronJob, Dataset, Execution, Job, NotificationRule, Project, Schedule, Task, TickJob
from core.tables.executions import RUNNING
from core.tables.schedules import WAITING
from core.tables.states import TERMINAL


def has_work(session: Session) -> bool:
    """Return whether executions, times of schedules, jobs and tasks, or restored versions are left to follow."""
    work = (
        select(Execution.id).where(Execution.state.not_in(TERMINAL) | Execution.holds_slot),
        select(Project.id).where(Project.cron_schedule.is_not(None)),
        select(Schedule.id).where(Schedule.next_tick_at.is_not(None) | Schedule.planned_for.is_(None)),
        select(Job.id).where(Job.stale_at.is_not(None)),
        select(NotificationRule.id).where(
            or_(NotificationRule.next_begin_at.is_not(None), NotificationRule.next_end_at.is_not(None))
        ),
        select(CronJob.id).where(CronJob.next_tick_at.is_not(None)),
        select(TickJob.id).where(WAITING),
        select(Backfill.id).where(RUNNING),
        select(Dataset.id).where(Dataset.unshown_version_id.is_not(None)),
        *(
            select(each.id).where(
                each.scheduled_time.is_not(None), each.scheduled_time.is_distinct_from(each.handled_time)
            )
            for each in (Job, Task)
        ),
    )
    return bool(session.scalar(select(or_(*(query.exists() for query in work)))))
