"""When an instance has something that the launcher has to follow."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from core.definitions.schedules.outlines import HAS_EXPRESSION
from core.tables import Backfill, CronJob, Dataset, Execution, Job, NotificationRule, Project, Schedule, Task, TickJob
from core.tables.executions import RUNNING
from core.tables.schedules import WAITING
from core.tables.states import TERMINAL

ENABLED = (Job.enabled, Project.enabled)  # others wait until somebody enables them


def find_next_time(session: Session, at: datetime) -> datetime | None:
    """Return when the launcher has to look again: `at` while something goes on, else the first time that is stored.

    None without one. What is committed later is not foreseen.
    """
    unsettled = Schedule.agreed_enabled.is_distinct_from(Schedule.enabled) & HAS_EXPRESSION
    work = (
        select(Execution.id).where(Execution.state.not_in(TERMINAL) | Execution.holds_slot),
        select(Schedule.id).join(Project).where(Schedule.planned_for.is_(None) | unsettled),
        select(TickJob.id).where(WAITING),
        select(Backfill.id).join(Job).join(Project, Project.id == Job.project_id).where(RUNNING, *ENABLED),
        select(Dataset.id).where(Dataset.unshown_version_id.is_not(None)),
    )
    if session.scalar(select(or_(*(query.exists() for query in work)))):
        return at
    times = (
        *(Schedule.next_tick_at, CronJob.next_tick_at),
        *(NotificationRule.next_begin_at, NotificationRule.next_end_at),
    )
    first = [
        *(select(func.min(time)) for time in times),
        select(func.min(Job.stale_at)).join(Project).where(*ENABLED),
        *(
            select(func.min(each.scheduled_time)).where(each.scheduled_time.is_distinct_from(each.handled_time))
            for each in (Job, Task)
        ),
    ]
    found = session.execute(select(*(query.scalar_subquery() for query in first))).one()
    return min((max(time, at) for time in found if time is not None), default=None)
