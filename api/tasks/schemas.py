"""Tasks as JSON. An API key is stored encrypted and shown as asterisks."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypeVar

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from api.kit.schemas import Body, ClearableTime, Name, Record, example
from core.credentials.repository import MASK
from core.executions.reconcile import MarkedZombies
from core.tasks.report import TaskWithExecution


class TaskUpdate(Body):
    model_config = example({"name": "Titles by hand", "taskType": "SPARK"})

    name: str | None = None
    description: str | None = None
    bot_id: str | None = None
    task_type: str | None = None
    execution_mode: str | None = None
    execution_log: str | None = None
    scheduled_time: ClearableTime | None = None
    enabled: bool | None = None
    api_key: str | None = Field(default=None, description="Write-only: reads return asterisks.")


class TaskCreate(TaskUpdate):
    name: Name  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]


class TaskRecord(Record):
    id: str
    name: str
    description: str | None
    job_id: str
    bot_id: str | None
    output_dataset_id: str | None
    task_type: str
    execution_reference_id: str | None
    execution_status: str
    execution_log: str | None
    scheduled_time: datetime | None
    execution_mode: str
    enabled: bool
    api_key: str | None
    created_at: datetime
    updated_at: datetime


class TaskStatus(Record):
    status: str
    progress: float


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
    status: str
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
    marked_task_ids: list[int]
    timeout_hours: int
    message: str


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
