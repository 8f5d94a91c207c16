"""Tasks as JSON; an API key that a client once wrote is never answered."""

from __future__ import annotations

from datetime import datetime

from api.kit.schemas import Record
from core.tasks import Run


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


def task_record(run: Run) -> TaskRecord:
    computed = {"id", "output_dataset_id", "execution_reference_id", "execution_status"}
    fields = {name: getattr(run.task, name) for name in TaskRecord.model_fields if name not in computed}
    return TaskRecord(
        **fields,
        id=str(run.task.id),
        output_dataset_id=run.dataset_id,
        execution_reference_id=run.task.execution_id,
        execution_status=run.status,
    )
