"""Tasks: each is one run of a job, and shows what its execution has come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from core.errors import NotFound
from core.executions.states import State
from core.jobs import Jobs
from core.tables import Execution, Task

LARGEST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Run:
    """A task and its execution, None before it was started."""

    task: Task
    execution: Execution | None

    @property
    def status(self) -> str:
        return State.PENDING if self.execution is None else State(self.execution.state).shown

    @property
    def progress(self) -> float:
        """The fraction of the stages that is done, from 0 to 1."""
        if self.execution is None:
            return 0.0
        return 1.0 if self.execution.state == State.COMPLETED else float(self.execution.progress.get("fraction", 0.0))

    @property
    def dataset_id(self) -> str | None:
        return None if self.execution is None else self.execution.dataset_id


class Tasks:
    """The runs of an organization's jobs."""

    def __init__(self, session: Session, organization_id: str) -> None:
        self.session = session
        self.organization_id = organization_id

    def list(
        self, project_id: str, job_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[Run]:
        """Oldest first; `after` is the id of the last task of the page before."""
        Jobs(self.session, self.organization_id).get(project_id, job_id)
        query = self._own().where(Task.job_id == job_id).order_by(Task.id).limit(limit)
        if after is not None:
            query = query.where(Task.id > _number(after))
        return [Run(task, execution) for task, execution in self.session.execute(query)]

    def get(self, project_id: str, job_id: str, task_id: str) -> Run:
        Jobs(self.session, self.organization_id).get(project_id, job_id)
        return self._one(self._own().where(Task.job_id == job_id, Task.id == _number(task_id)))

    def by_id(self, task_id: str) -> Run:
        return self._one(self._own().where(Task.id == _number(task_id)))

    def _own(self) -> Select[Any]:
        runs = select(Task, Execution).outerjoin(Execution, Execution.id == Task.execution_id)
        return runs.where(Task.organization_id == self.organization_id)

    def _one(self, query: Select[Any]) -> Run:
        row = self.session.execute(query).first()
        if row is None:
            raise _unknown()
        return Run(cast(Task, row[0]), cast("Execution | None", row[1]))


def _number(task_id: str) -> int:
    """Tasks count in integers; anything else is the id of none."""
    if not (task_id.isascii() and task_id.isdigit()) or int(task_id) > LARGEST_ID:
        raise _unknown()
    return int(task_id)


def _unknown() -> NotFound:
    return NotFound("There is no task with this id.")
