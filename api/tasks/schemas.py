"""Tasks as JSON; an API key that a client sends along is neither kept nor answered."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypeVar

from pydantic import ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from api.kit.schemas import Body, Name, Record, Time, example
from core.executions.zombies import Cleanup
from core.tasks.repository import TaskRecord as Stored


class TaskUpdate(Body):
    model_config = example({"name": "Titles by hand", "taskType": "SPARK"})

    name: str | None = None
    description: str | None = None
    bot_id: str | None = None
    task_type: str | None = None
    execution_mode: str | None = None
    execution_log: str | None = None
    scheduled_time: Time | None = None
    enabled: bool | None = None


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
    created_at: datetime
    updated_at: datetime


class TaskStatus(Record):
    status: str
    progress: float


def _or_nothing(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    try:
        return handler(value)
    except ValidationError:
        return None


T = TypeVar("T")
Told = Annotated[T | None, WrapValidator(_or_nothing)]  # a client may have written anything into its log


class TaskMetrics(Record):
    """Read from the task's executionLog; null where it tells nothing."""

    task_id: int
    status: str
    started_at: Told[datetime]
    completed_at: Told[datetime]
    duration_seconds: Told[int]
    records_processed: Told[int]
    records_output: Told[int]
    output_file_size_bytes: Told[int]
    driver_memory_used_bytes: Told[int]
    executor_memory_used_bytes: Told[int]
    executor_count: Told[int]
    total_cpu_time_seconds: Told[int]
    error_count: Told[int]
    warning_count: Told[int]


class ZombieCleanup(Record):
    marked_count: int
    marked_task_ids: list[int]
    timeout_hours: int
    message: str


def task_record(stored: Stored) -> TaskRecord:
    computed = {"id", "output_dataset_id", "execution_reference_id", "execution_status", "execution_log"}
    fields = {name: getattr(stored.task, name) for name in TaskRecord.model_fields if name not in computed}
    return TaskRecord(
        **fields,
        id=str(stored.task.id),
        output_dataset_id=stored.execution and stored.execution.dataset_id,
        execution_reference_id=stored.task.execution_id,
        execution_status=stored.status,
        execution_log=stored.log,
    )


def task_metrics(stored: Stored) -> TaskMetrics:
    return TaskMetrics.model_validate({"taskId": stored.task.id} | stored.metrics())


def zombie_cleanup(cleanup: Cleanup) -> ZombieCleanup:
    return ZombieCleanup(
        marked_count=len(cleanup.marked_task_ids),
        marked_task_ids=list(cleanup.marked_task_ids),
        timeout_hours=cleanup.timeout_hours,
        message=cleanup.message,
    )
