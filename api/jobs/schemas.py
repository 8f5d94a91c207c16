"""Jobs as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from api.kit.schemas import Body, Record
from core.definitions.jobs.models import MaxRetries, RetryBackoffSeconds, TimeoutSeconds
from core.definitions.jobs.repository import JobWithTasks
from core.infra.changes import LOWER, WHOLE, ClearableTime, Name, example


class JobUpdate(Body):
    model_config = example(
        {"name": "Titles", "agentId": "01a1fe8d-908f-7f00-a12a-dce377429a92", "parameters": {"CITY": "Paris"}}
    )

    name: str | None = None
    description: str | None = None
    agent_id: str | None = None
    input_dataset_id: str | None = None
    cloud_credential_id: str | None = None
    cloud_credential_ids: list[str] | None = None
    parameters: dict[str, Any] | None = None
    scheduled_time: ClearableTime | None = None
    max_retries: Annotated[MaxRetries, WHOLE] | None = None
    retry_backoff_seconds: Annotated[RetryBackoffSeconds, WHOLE] | None = None
    timeout_seconds: Annotated[TimeoutSeconds, WHOLE] | None = None
    retry_on: Annotated[Literal["infrastructure", "any"], LOWER] | None = None
    enabled: bool | None = None
    """Whether it may be executed; true when left out at the creation."""


class JobCreate(JobUpdate):
    name: Name  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]


class JobRecord(Record):
    id: str
    """Id of the job."""
    name: str
    slug: str
    """Its table's name in SQL."""
    description: str | None
    project_id: str
    agent_id: str | None
    input_dataset_id: str | None
    output_dataset_id: str | None
    """Id of the dataset that its executions write; null before the first one."""
    cloud_credential_id: str | None
    cloud_credential_ids: list[str]
    parameters: dict[str, Any]
    execution_status: str
    """State of its newest execution: PENDING, RUNNING, COMPLETED or FAILED; PENDING before the first one."""
    latest_execution_id: str | None
    """Id of its newest execution; null before the first one."""
    scheduled_time: datetime | None
    max_retries: int
    retry_backoff_seconds: int
    timeout_seconds: int
    retry_on: str
    enabled: bool
    """Whether it may be executed."""
    task_ids: list[str]
    """Ids of its tasks, oldest first."""
    created_at: datetime
    updated_at: datetime


def build_job_record(found: JobWithTasks) -> JobRecord:
    return JobRecord.from_row(found.job, task_ids=list(found.task_ids), execution_status=found.execution_status)
