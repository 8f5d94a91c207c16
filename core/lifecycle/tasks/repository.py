"""Tasks: each is a run of a job, bound to the execution that it started last."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from core.definitions.jobs.repository import JobRepository
from core.definitions.schedules.times import check_scheduled_time
from core.errors import BadInput, Conflict, NotFound
from core.infra.encryption import AssociatedData, KeyRing
from core.infra.repository import lock_organization, lock_project, lock_row
from core.infra.validation import check_storable, parse_integer
from core.lifecycle.executions.states import Trigger
from core.lifecycle.executions.transitions import cancel_all, move
from core.lifecycle.tasks.models import TaskCreate, TaskUpdate
from core.lifecycle.tasks.report import TaskWithExecution
from core.tables import Execution, Task
from core.tables.states import State

MAX_KEY_LENGTH = 16 * 2**10


class TaskRepository:
    """The tasks of one organization's jobs. Their ids are integers, as text."""

    def __init__(self, session: Session, organization_id: str) -> None:
        self.session = session
        self.organization_id = organization_id

    def create(self, project_id: str, job_id: str, new: TaskCreate) -> TaskWithExecution:
        job = JobRepository(self.session, self.organization_id).get(project_id, job_id)
        columns = new.to_columns()
        check_scheduled_time(columns.get("scheduled_time"))
        task = Task(organization_id=self.organization_id, job_id=job.id, **columns)
        self.session.add(task)
        self.session.flush()
        return TaskWithExecution(task, None)

    def list(
        self, project_id: str, job_id: str, *, limit: int | None = None, after: int | None = None
    ) -> Sequence[TaskWithExecution]:
        JobRepository(self.session, self.organization_id).get(project_id, job_id)
        query = self._select().where(Task.job_id == job_id).order_by(Task.id).limit(limit)
        if after is not None:
            query = query.where(Task.id > after)
        return [TaskWithExecution(*row) for row in self.session.execute(query)]

    def get(self, project_id: str, job_id: str, task_id: str) -> TaskWithExecution:
        JobRepository(self.session, self.organization_id).get(project_id, job_id)
        number = parse_integer(task_id)
        if number is None:
            raise _not_found()
        row = self.session.execute(self._select().where(Task.job_id == job_id, Task.id == number)).one_or_none()
        if row is None:
            raise _not_found()
        return TaskWithExecution(*row)

    def get_startable(self, project_id: str, job_id: str, task_id: str) -> Task:
        """Return the task; raise Conflict when it is disabled or running."""
        found = self.get(project_id, job_id, task_id)
        if not found.task.enabled:
            raise Conflict("This task is disabled. Enable it to start it.", code="disabled")
        if found.execution is not None and not State(found.execution.state).terminal:
            raise Conflict("This task is running already.", code="already-running")
        return found.task

    def update(self, project_id: str, job_id: str, task_id: str, changes: TaskUpdate) -> TaskWithExecution:
        found = self.get(project_id, job_id, task_id)
        columns = changes.to_columns()
        check_scheduled_time(columns.get("scheduled_time"), found.task.scheduled_time)
        for field, value in columns.items():
            setattr(found.task, field, value)
        self.session.flush()
        return found

    def store_api_key(self, task: Task, api_key: str, key_ring: KeyRing) -> None:
        """Encrypt the task's API key; one that is empty or masked, as clients have read it, changes nothing."""
        if not api_key.strip("*"):
            return
        check_storable("apiKey", api_key)
        if len(api_key) > MAX_KEY_LENGTH:
            raise BadInput(f"'apiKey' is longer than {MAX_KEY_LENGTH} characters.", path="apiKey")
        task.sealed_api_key = key_ring.encrypt(api_key, bind_task(task))
        self.session.flush()

    def delete(self, project_id: str, job_id: str, task_id: str) -> None:
        """Cancel the task's execution, then delete the task; its executions stay."""
        found = self.get(project_id, job_id, task_id)
        if found.execution is not None:
            move(self.session, found.execution, Trigger.CANCEL, error_message="The task was deleted.")
        self.session.delete(found.task)
        self.session.flush()

    def stop(self, project_id: str, job_id: str, task_id: str) -> None:
        """Cancel the task's execution, if it is running."""
        found = self.get(project_id, job_id, task_id)
        if found.execution is not None:
            move(self.session, found.execution, Trigger.CANCEL, error_message="The task was stopped.")

    def stop_all(self, project_id: str, job_id: str) -> None:
        """Cancel all executions of the job that have not ended."""
        job = JobRepository(self.session, self.organization_id).get(project_id, job_id)
        cancel_all(self.session, Execution.job_id == job.id, "The job was stopped.")

    def lock(self, project_id: str, task: Task, if_match: Collection[str]) -> None:
        """Lock the task, and its project first: states of executions change under the project's lock."""
        lock_organization(self.session, self.organization_id)
        lock_project(self.session, project_id)
        lock_row(self.session, self.organization_id, task, if_match)

    def _select(self) -> Select[Any]:
        query = select(Task, Execution).outerjoin(Execution, Execution.id == Task.execution_id)
        return query.where(Task.organization_id == self.organization_id)


def bind_task(task: Task) -> AssociatedData:
    return AssociatedData(task.organization_id, f"task {task.id}", "api_key")


def _not_found() -> NotFound:
    return NotFound("There is no task with this id.")
