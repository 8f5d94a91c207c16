"""Executions at the scheduled time of a job or task: one for every value of the time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import structlog
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from core.errors import DailyLimit, SpindleError
from core.infra.database import Database, execute_update
from core.infra.settings import Settings
from core.lifecycle.executions.transitions import lock_project
from core.lifecycle.submission.planning import SubmitRequest, plan_execution
from core.lifecycle.submission.submit import accept_execution
from core.tables import Job, Task

PAGE = 100

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _DueTime:
    """The scheduled time of a job or task, when it is due."""

    organization_id: str
    project_id: str
    job_id: str
    task_id: int | None
    at: datetime

    def mark_handled(self, session: Session) -> bool:
        """Mark the time as handled; return False when it was, or was changed."""
        table = Job if self.task_id is None else Task
        same = (table.id == (self.job_id if self.task_id is None else self.task_id), table.scheduled_time == self.at)
        open_ = table.handled_time.is_distinct_from(self.at)
        values = {"handled_time": self.at, "updated_at": table.updated_at}
        return bool(execute_update(session, update(table).where(*same, open_).values(values)))


def execute_scheduled(database: Database, settings: Settings, at: datetime) -> None:
    """Execute the jobs and tasks whose scheduled time is over. One that cannot be executed then is logged."""
    with database.read() as session:
        due = _load_due(session, at)
    for each in due:
        try:
            _execute(database, settings, each)
        except SpindleError as error:
            if error.retryable and not isinstance(error, DailyLimit):
                continue
            with database.write() as session:
                each.mark_handled(session)
            log.warning("not executed at its scheduled time", job_id=each.job_id, reason=error.sentence)


def _load_due(session: Session, at: datetime) -> list[_DueTime]:
    due: list[_DueTime] = []
    columns = (Job.organization_id, Job.project_id, Job.id)
    jobs = select(*columns, Job.scheduled_time).where(Job.scheduled_time <= at)
    jobs = jobs.where(Job.handled_time.is_distinct_from(Job.scheduled_time)).limit(PAGE)
    for organization_id, project_id, job_id, time in session.execute(jobs).tuples():
        due.append(_DueTime(organization_id, project_id, job_id, None, time or at))
    tasks = select(*columns, Task.id, Task.scheduled_time).join(Job, Job.id == Task.job_id)
    tasks = tasks.where(Task.scheduled_time <= at, Task.handled_time.is_distinct_from(Task.scheduled_time)).limit(PAGE)
    for organization_id, project_id, job_id, task_id, time in session.execute(tasks).tuples():
        due.append(_DueTime(organization_id, project_id, job_id, task_id, time or at))
    return due


def _execute(database: Database, settings: Settings, due: _DueTime) -> None:
    """Accept the execution and mark its time as handled in one transaction, unless another process has done both."""
    request = SubmitRequest(
        organization_id=due.organization_id,
        project_id=due.project_id,
        job_id=due.job_id,
        task_id=None if due.task_id is None else str(due.task_id),
        queue=True,
        trigger="scheduledTime",
        tick_at=due.at,
    )
    with database.read() as session:
        planned = plan_execution(session, settings, request)
    with database.write() as session:
        lock_project(session, due.project_id)
        if due.mark_handled(session):
            accept_execution(session, planned)
