"""Executions as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BeforeValidator, Field
from sqlalchemy import RowMapping

from api.kit.schemas import WHOLE, Body, Record, example
from core.executions.queries import Status

Queue = Annotated[
    bool, Query(description="Where the project has no slot free: wait for one in order, instead of a 429.")
]


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


Level = Annotated[Literal["DEBUG", "INFO", "WARN", "ERROR"], BeforeValidator(_upper)]
PodType = Annotated[Literal["driver", "executor"], BeforeValidator(_lower)]


class ExecuteRequest(Body):
    """What one execution gets beside its job; `parameters.limit` caps its output rows."""

    model_config = example({"parameters": {"CITY": "Rome", "limit": 100}})

    parameters: dict[str, Any] | None = None
    arguments: list[str] | None = None
    cloud_credential_ids: list[str] | None = None
    cloud_credential_id: str | None = None
    limit: Annotated[int, Field(ge=0), WHOLE] | None = None

    @property
    def credential_ids(self) -> Sequence[str]:
        return self.cloud_credential_ids or ([self.cloud_credential_id] if self.cloud_credential_id else [])


class Submission(Record):
    execution_id: str
    status: str
    message: str
    cluster_id: str
    success: bool


class ExecutionStatus(Record):
    execution_id: str
    status: str
    started_at: datetime | None
    completed_at: datetime | None
    execution_time_seconds: int | None
    error_message: str | None
    spark_ui_url: str | None
    executor_pod_count: int | None
    progress: dict[str, Any]


class ExecutionRecord(ExecutionStatus):
    job_id: str
    project_id: str
    task_id: str | None
    attempt: int
    dataset_id: str | None
    created_at: datetime


class Logs(Record):
    logs: list[str]


def execution_status(execution: RowMapping) -> ExecutionStatus:
    return ExecutionStatus(**_status(execution))


def execution_record(execution: RowMapping) -> ExecutionRecord:
    task_id = execution["task_id"]
    return ExecutionRecord(
        **_status(execution),
        job_id=execution["job_id"],
        project_id=execution["project_id"],
        task_id=None if task_id is None else str(task_id),
        attempt=execution["attempt"],
        dataset_id=execution["dataset_id"],
        created_at=execution["created_at"],
    )


def _status(execution: RowMapping) -> dict[str, Any]:
    status = Status.of(execution)
    names = set(ExecutionStatus.model_fields) - {"progress"}
    return {name: getattr(status, name) for name in names} | {"progress": execution["progress"]}
