"""Tasks as JSON. An API key is stored encrypted and shown as asterisks."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypeVar

from pydantic import ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from api.kit.schemas import Record
from core.definitions.credentials.repository import MASK
from core.lifecycle.executions.reconcile import MarkedZombies
from core.lifecycle.tasks.report import TaskWithExecution


class TaskRecord(Record):
    id: str
    """Id of the task, an integer as text."""
    name: str
    description: str | None
    job_id: str
    bot_id: str | None
    output_dataset_id: str | None
    """Id of the dataset that its execution published; null before."""
    task_type: str
    execution_reference_id: str | None
    """Id of the execution that it started last; null before the first one."""
    execution_status: str
    """State of that execution: PENDING, RUNNING, COMPLETED or FAILED; PENDING before the first one."""
    execution_log: str | None
    """A line for each change of state, then a line of metrics as JSON."""
    scheduled_time: datetime | None
    execution_mode: str
    enabled: bool
    """Whether it may be started."""
    api_key: str | None
    """Asterisks where one is stored, else null."""
    created_at: datetime
    updated_at: datetime


class TaskStatus(Record):
    status: str
    """State of the task's last execution: PENDING, RUNNING, COMPLETED or FAILED."""
    progress: float
    """Completed fraction of the stages, 0 to 1."""


def _ignore_invalid(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    try:
        return handler(value)
    except ValidationError:
        return None


T = TypeVar("T")
Lenient = Annotated[T | None, WrapValidator(_ignore_invalid)]  # clients may store any text as a log


class TaskMetrics(Record):
    """Read from the metrics line of the task's executionLog; null where it lacks a metric."""

    task_id: int
    """Id of the task."""
    status: str
    """PENDING, RUNNING, COMPLETED or FAILED."""
    started_at: Lenient[datetime]
    completed_at: Lenient[datetime]
    duration_seconds: Lenient[int]
    records_processed: Lenient[int]
    records_output: Lenient[int]
    output_file_size_bytes: Lenient[int]
    driver_memory_used_bytes: Lenient[int]
    executor_memory_used_bytes: Lenient[int]
    executor_count: Lenient[int]
    total_cpu_time_seconds: Lenient[int]
    error_count: Lenient[int]
    warning_count: Lenient[int]


class ZombieCleanup(Record):
    marked_count: int
    """Number of tasks that were failed."""
    marked_task_ids: list[int]
    """Ids of these tasks."""
    timeout_hours: int
    """Hours after which a running execution was failed."""
    message: str
    """The same as a sentence."""


def build_task_record(found: TaskWithExecution) -> TaskRecord:
    return TaskRecord.from_row(
        found.task,
        id=str(found.task.id),
        output_dataset_id=found.execution and found.execution.dataset_id,
        execution_reference_id=found.task.execution_id,
        execution_status=found.status,
        execution_log=found.log,
        api_key=MASK if found.task.sealed_api_key else None,
    )


def build_task_metrics(found: TaskWithExecution) -> TaskMetrics:
    return TaskMetrics.model_validate({"taskId": found.task.id} | found.read_metrics())


def build_zombie_cleanup(cleanup: MarkedZombies) -> ZombieCleanup:
    return ZombieCleanup(
        marked_count=len(cleanup.marked_task_ids),
        marked_task_ids=list(cleanup.marked_task_ids),
        timeout_hours=cleanup.timeout_hours,
        message=cleanup.message,
    )
