"""Reading executions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from core.definitions.jobs.partitions import split_at_period
from core.definitions.jobs.repository import JobRepository
from core.infra.repository import Repository
from core.infra.validation import is_storable
from core.lifecycle.executions.pools import find_obstacles
from core.lifecycle.executions.states import Trigger, get_sources
from core.lifecycle.usage.usage import measure_seconds
from core.tables import Execution, first_id_at
from core.tables.shared import fill_in
from core.tables.states import State

_CLAIMED = (Execution.state.in_(get_sources(Trigger.FAIL)), Execution.claimed_at.is_not(None))

# without the pipeline, which may be long, and the other columns that only a driver needs
PUBLIC_COLUMNS = select(
    *(Execution.id, Execution.organization_id, Execution.project_id, Execution.job_id, Execution.task_id),
    *(Execution.state, Execution.attempt, Execution.created_at, Execution.started_at, Execution.completed_at),
    *(Execution.error_code, Execution.retry_at, Execution.retries, Execution.max_retries),
    *(Execution.error_message, Execution.spark_ui_url, Execution.metrics, Execution.progress, Execution.dataset_id),
    *(Execution.trigger, Execution.tick_at, Execution.run_id, Execution.spark_reason, Execution.inputs),
    *(Execution.driver, Execution.publishes, Execution.schedule_name, Execution.pages_of),
    *(Execution.partition, Execution.backfill_id, Execution.pools, Execution.details_removed_at),
    Execution.shared.label("shared"),
)
CLOCK_STEP = timedelta(minutes=1)  # more than lies between the time in an id and that of its row


@dataclass(frozen=True, slots=True)
class Status:
    """An execution as its status endpoint shows it."""

    execution_id: str
    status: str
    started_at: datetime | None
    completed_at: datetime | None
    execution_time_seconds: int | None
    error_message: str | None
    executor_pod_count: int | None
    spark_application_name: str | None = None

    @classmethod
    def from_record(cls, execution: Mapping[str, Any]) -> Status:
        return cls(
            execution["id"],
            State(execution["state"]).public,
            execution["started_at"],
            execution["completed_at"],
            measure_seconds(execution["started_at"], execution["completed_at"]),
            execution["error_message"],
            _count_executors(execution["metrics"]),
            execution["metrics"].get("spark_application_name"),
        )


def _count_executors(metrics: Mapping[str, Any]) -> int | None:
    """Return the number of executors beside the driver: Spark counts a driver that runs all tasks as one."""
    is_alone = metrics.get("metrics", {}).get("executorSeconds") == 0
    return 0 if is_alone else metrics.get("executor_count")


def get_engine(execution: Mapping[str, Any]) -> str:
    """Return the engine that ran an execution; before its end, the one that it begins with."""
    reported = execution["metrics"].get("additional", {}).get("engine")
    return reported or ("spark" if execution["spark_reason"] else "local")


def select_comparable(execution: Execution) -> Select[tuple[Execution]]:
    """Select the executions of its job with which an execution is compared, the newest first: others that publish.

    Those of a partition have the same values, since other values have other numbers of rows; their periods may differ.
    """
    key, scheme = execution.partition, execution.partition_scheme
    same = [Execution.organization_id == execution.organization_id, Execution.job_id == execution.job_id]
    same.append(Execution.partition_scheme.is_not_distinct_from(scheme))
    if key is not None and scheme is not None:  # LIKE would take a for A in SQLite; periods are equally long
        before, after = split_at_period(key, scheme)
        same.append(func.substr(Execution.partition, 1, len(before)) == before)
        same.append(func.substr(Execution.partition, len(key) - len(after) + 1) == after)
    query = select(Execution).where(*same, Execution.publishes, Execution.id != execution.id)
    return query.order_by(Execution.completed_at.desc(), Execution.id.desc())


class ExecutionRepository(Repository[Execution]):
    """The executions of one organization."""

    row = Execution
    noun = "execution"

    def get(self, project_id: str, job_id: str, execution_id: str) -> Execution:
        if not is_storable(project_id + job_id + execution_id):
            raise self._not_found()
        query = self._select().where(Execution.id == execution_id, Execution.job_id == job_id)
        return self._fetch_one(query.where(Execution.project_id == project_id))

    def load_record(self, execution: Execution) -> Mapping[str, Any]:
        """Return the public columns as this transaction sees them, and what it waits for."""
        return self._add_obstacles(PUBLIC_COLUMNS.where(Execution.id == execution.id))[0]

    def list_records(
        self, project_id: str, job_id: str, *, limit: int | None = None, before: str | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """Return the newest first; `before` is the id of the last one on the previous page."""
        JobRepository(self.session, self.organization_id).get(project_id, job_id)
        query = PUBLIC_COLUMNS.where(Execution.organization_id == self.organization_id, Execution.job_id == job_id)
        if before is not None:
            query = query.where(Execution.id < before)
        return self._add_obstacles(query.order_by(Execution.id.desc()).limit(limit))

    def _add_obstacles(self, query: Select[Any]) -> list[Mapping[str, Any]]:
        """Return the records with the full places for which they wait."""
        rows = [fill_in(row) for row in self.session.execute(query).mappings()]
        obstacles = find_obstacles(self.session, rows)
        return [{**row, "waits_for": each} for row, each in zip(rows, obstacles, strict=True)]

    def list_of_organization(
        self,
        states: Collection[State],
        since: datetime | None = None,
        *,
        limit: int | None = None,
        before: str | None = None,
    ) -> Sequence[Mapping[str, Any]]:
        """Return the organization's executions in these states that were accepted since then, the newest first."""
        query = PUBLIC_COLUMNS.where(Execution.organization_id == self.organization_id, Execution.state.in_(states))
        if since is not None:
            beginning = first_id_at(since - CLOCK_STEP)  # so that the index finds them
            query = query.where(Execution.id >= beginning, Execution.created_at >= since)
        if before is not None:
            query = query.where(Execution.id < before)
        return self._add_obstacles(query.order_by(Execution.id.desc()).limit(limit))


def load_current_attempt(session: Session, execution_id: str) -> int:
    """Return the number of the execution's current attempt, 1 for an unknown execution."""
    if not is_storable(execution_id):
        return 1
    return session.scalar(select(Execution.attempt).where(Execution.id == execution_id)) or 1


def list_stopping(session: Session) -> Sequence[Execution]:
    """Return the cancelled executions of all organizations whose drivers have not been reported gone."""
    query = select(Execution).where(Execution.holds_slot, Execution.state == State.CANCELLED)
    return session.scalars(query.order_by(Execution.id)).all()


def list_running_attempts(session: Session) -> frozenset[tuple[str, int]]:
    """Return the ids of executions that a run has claimed and that have not ended, with their attempts."""
    query = select(Execution.id, Execution.attempt).where(*_CLAIMED)
    return frozenset((each.id, each.attempt) for each in session.execute(query))


def list_claimed(session: Session) -> Sequence[Execution]:
    """Return the executions of all organizations that a run has claimed and that have not ended."""
    query = select(Execution).where(*_CLAIMED)
    return session.scalars(query.order_by(Execution.id)).all()
