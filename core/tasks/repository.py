"""Tasks: each is a run of a job; its state, log and metrics are those of the execution bound to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from core.errors import BadInput, Conflict, Detail, NotFound
from core.executions.states import Event, State
from core.executions.transitions import move
from core.infra.repository import validate_fields
from core.infra.validation import iso, storable
from core.jobs.repository import JobRepository
from core.metrics.usage import measure_seconds
from core.tables import Execution, Task

FIELDS = frozenset(
    {"name", "description", "bot_id", "task_type", "execution_mode", "execution_log", "scheduled_time", "enabled"}
)
TYPES = ("SPARK", "BROWSER", "PYTHON")
LARGEST_ID = 2**31 - 1
_MEASURED = {
    "recordsProcessed": "records_processed",
    "recordsOutput": "records_output",
    "outputFileSizeBytes": "output_file_size_bytes",
    "driverMemoryUsedBytes": "driver_memory_used_bytes",
    "executorMemoryUsedBytes": "executor_memory_used_bytes",
    "executorCount": "executor_count",
    "totalCpuTimeSeconds": "total_cpu_time_seconds",
    "errorCount": "error_count",
    "warningCount": "warning_count",
}
METRICS = ("status", "durationSeconds", "startedAt", "completedAt", *_MEASURED)


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task with the execution that it is bound to, if it ever ran."""

    task: Task
    execution: Execution | None

    @property
    def status(self) -> str:
        return State.PENDING if self.execution is None else State(self.execution.state).shown

    @property
    def progress(self) -> float:
        """The fraction that is done, 0 to 1."""
        if self.execution is None:
            return 0.0
        fraction = self.execution.progress.get("fraction", 0.0)
        done = float(fraction) if isinstance(fraction, int | float) else 0.0
        return 1.0 if self.execution.state == State.COMPLETED else min(max(done, 0.0), 1.0)

    @property
    def log(self) -> str | None:
        """The executionLog: text, its last line the metrics as JSON; what a client wrote, before the first run."""
        return self.task.execution_log if self.execution is None else _log(self.execution)

    def metrics(self) -> dict[str, Any]:
        """What the log's metrics line tells; None for each metric that it leaves out."""
        line = _metrics_line(self.log or "")
        status = line.get("status")
        told = isinstance(status, str) and status and storable(status)
        return {name: line.get(name) for name in METRICS} | {"status": status if told else self.status}


class TaskRepository:
    """The tasks of one organization's jobs. Ids are integers, written as text."""

    def __init__(self, session: Session, organization_id: str) -> None:
        self.session = session
        self.organization_id = organization_id

    def create(self, project_id: str, job_id: str, values: Mapping[str, Any]) -> TaskRecord:
        job = JobRepository(self.session, self.organization_id).get(project_id, job_id)
        known = _checked(values)
        if "name" not in known:
            raise BadInput("A task needs a 'name'.", [Detail("name", "is missing")])
        task = Task(organization_id=self.organization_id, job_id=job.id, **known)
        self.session.add(task)
        self.session.flush()
        return TaskRecord(task, None)

    def list(
        self, project_id: str, job_id: str, *, limit: int | None = None, after: int | None = None
    ) -> Sequence[TaskRecord]:
        JobRepository(self.session, self.organization_id).get(project_id, job_id)
        query = self._of(job_id) if after is None else self._of(job_id).where(Task.id > after)
        return [TaskRecord(task, execution) for task, execution in self.session.execute(query.limit(limit))]

    def get(self, project_id: str, job_id: str, task_id: str) -> TaskRecord:
        JobRepository(self.session, self.organization_id).get(project_id, job_id)
        row = self.session.execute(self._of(job_id).where(Task.id == _number(task_id))).first()
        if row is None:
            raise _unknown()
        return TaskRecord(row[0], row[1])

    def by_id(self, task_id: str) -> TaskRecord:
        """A task of any job of the organization."""
        row = self.session.execute(self._all().where(Task.id == _number(task_id))).first()
        if row is None:
            raise _unknown()
        return TaskRecord(row[0], row[1])

    def update(self, project_id: str, job_id: str, task_id: str, changes: Mapping[str, Any]) -> TaskRecord:
        """Merges."""
        record = self.get(project_id, job_id, task_id)
        for field, value in _checked(changes).items():
            setattr(record.task, field, value)
        self.session.flush()
        return record

    def delete(self, project_id: str, job_id: str, task_id: str) -> None:
        """Removes the task; what it runs is cancelled first, and its executions stay."""
        record = self.get(project_id, job_id, task_id)
        if record.execution is not None:
            move(self.session, record.execution, Event.CANCEL, error_message="The task was deleted.")
        self.session.delete(record.task)
        self.session.flush()

    def _of(self, job_id: str) -> Select[Any]:
        return self._all().where(Task.job_id == job_id).order_by(Task.id)

    def _all(self) -> Select[Any]:
        query = select(Task, Execution).outerjoin(Execution, Execution.id == Task.execution_id)
        return query.where(Task.organization_id == self.organization_id)


def startable(session: Session, organization_id: str, project_id: str, job_id: str, task_id: str) -> Task:
    """The task, if it may be started now; Conflict when it is disabled or running already."""
    record = TaskRepository(session, organization_id).get(project_id, job_id, task_id)
    if not record.task.enabled:
        raise Conflict("This task is disabled. Enable it to start it.")
    if record.execution is not None and not State(record.execution.state).terminal:
        raise Conflict("This task is running already.")
    return record.task


def stop(session: Session, organization_id: str, project_id: str, job_id: str, task_id: str) -> None:
    """Cancels what the task runs; nothing happens when it does not run."""
    record = TaskRepository(session, organization_id).get(project_id, job_id, task_id)
    if record.execution is not None:
        move(session, record.execution, Event.CANCEL, error_message="The task was stopped.")


def _checked(values: Mapping[str, Any]) -> dict[str, Any]:
    known = validate_fields(values, FIELDS)
    if "task_type" in known:
        known["task_type"] = known["task_type"].upper()
        if known["task_type"] not in TYPES:
            sentence = f"'taskType' is one of {', '.join(TYPES)}."
            raise BadInput(sentence, [Detail("taskType", sentence)])
    return known


def _number(task_id: str) -> int:
    if not (task_id.isascii() and task_id.isdecimal() and len(task_id) <= 10 and int(task_id) <= LARGEST_ID):
        raise _unknown()
    return int(task_id)


def _unknown() -> NotFound:
    return NotFound("There is no task with this id.")


def _log(execution: Execution) -> str:
    """What happened, a line each, and last the metrics."""
    times = (
        (execution.created_at, "Submitted."),
        (execution.started_at, "Started."),
        (execution.completed_at, f"{State(execution.state).shown}. {execution.error_message or ''}".strip()),
    )
    lines = [f"{at.isoformat()} {text}" for at, text in times if at is not None]
    return "\n".join([*lines, json.dumps(_measured(execution))])


def _measured(execution: Execution) -> dict[str, Any]:
    counts = {name: execution.metrics.get(key) for name, key in _MEASURED.items()}
    took = measure_seconds(execution.started_at, execution.completed_at)
    return {
        "status": State(execution.state).shown,
        "startedAt": iso(execution.started_at),
        "completedAt": iso(execution.completed_at),
        "durationSeconds": execution.metrics.get("duration_seconds", took),
        **counts,
    }


def _metrics_line(log: str) -> Mapping[str, Any]:
    """The last line of the log that is a JSON object; empty where there is none."""
    for line in reversed(log.splitlines()):
        try:
            value = json.loads(line) if line.lstrip().startswith("{") else None
        except (ValueError, RecursionError):  # a line of a client's, that is no metrics line
            continue
        if isinstance(value, dict):
            return cast(Mapping[str, Any], value)
    return {}
