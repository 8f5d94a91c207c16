"""Reading executions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import RowMapping, select
from sqlalchemy.orm import Session

from core.executions.states import Event, State, sources
from core.infra.repository import Repository
from core.infra.validation import storable
from core.jobs.repository import JobRepository
from core.metrics.usage import measure_seconds
from core.tables import Execution


@dataclass(frozen=True, slots=True)
class Status:
    """An execution as its status endpoint shows it."""

    execution_id: str
    status: str
    started_at: datetime | None
    completed_at: datetime | None
    execution_time_seconds: int | None
    error_message: str | None
    spark_ui_url: str | None
    executor_pod_count: int | None

    @classmethod
    def of(cls, execution: RowMapping) -> Status:
        return cls(
            execution["id"],
            State(execution["state"]).shown,
            execution["started_at"],
            execution["completed_at"],
            measure_seconds(execution["started_at"], execution["completed_at"]),
            execution["error_message"],
            execution["spark_ui_url"],
            execution["metrics"].get("executor_count"),
        )


def newest_attempt(session: Session, execution_id: str) -> int:
    """The number of the execution's current attempt; 1 for an unknown one, as for all that were never retried."""
    if not storable(execution_id):
        return 1
    return session.scalar(select(Execution.attempt).where(Execution.id == execution_id)) or 1


# its pipeline, which may be long, and what else was frozen for it are not shown
SHOWN = select(
    *(Execution.id, Execution.organization_id, Execution.project_id, Execution.job_id, Execution.task_id),
    *(Execution.state, Execution.attempt, Execution.created_at, Execution.started_at, Execution.completed_at),
    *(Execution.error_message, Execution.spark_ui_url, Execution.metrics, Execution.progress, Execution.dataset_id),
)


class Executions(Repository[Execution]):
    row = Execution
    noun = "execution"
    shown = SHOWN

    def get(self, project_id: str, job_id: str, execution_id: str) -> Execution:
        if not storable(project_id + job_id + execution_id):
            raise self._not_found()
        query = self._select().where(Execution.id == execution_id, Execution.job_id == job_id)
        return self._fetch_one(query.where(Execution.project_id == project_id))

    def record(self, row: Execution) -> RowMapping:
        return self.session.execute(self.shown.where(Execution.id == row.id)).mappings().one()

    def records(
        self, project_id: str, job_id: str, *, limit: int | None = None, before: str | None = None
    ) -> Sequence[RowMapping]:
        """Newest first; `before` is the id of the last one of the page before."""
        JobRepository(self.session, self.organization_id).get(project_id, job_id)
        query = self.shown.where(Execution.organization_id == self.organization_id, Execution.job_id == job_id)
        if before is not None:
            query = query.where(Execution.id < before)
        return self.session.execute(query.order_by(Execution.id.desc()).limit(limit)).mappings().all()


def claimed(session: Session) -> Sequence[Execution]:
    """What runs now in all organizations: claimed by a run, and not ended."""
    query = select(Execution).where(Execution.state.in_(sources(Event.FAIL)), Execution.claimed_at.is_not(None))
    return session.scalars(query.order_by(Execution.id)).all()
