"""Jobs as JSON."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from api.kit.schemas import Record
from core.definitions.jobs.models import StoredJob
from core.definitions.jobs.repository import JobWithTasks


class JobRecord(StoredJob, Record):
    execution_status: str
    """State of its newest execution: PENDING, RUNNING, COMPLETED or FAILED; PENDING before the first one."""
    execution_state: str
    """The same in detail: also QUEUED and CANCELLED."""
    task_ids: list[str]
    """Ids of its newest 100 tasks, oldest first."""


class WrittenJob(JobRecord):
    """`warnings`, if any, name jobs that read each other's tables in a cycle."""

    warnings: list[str] = Field(default_factory=list, exclude_if=operator.not_)
    """Cycles of jobs that read each other's tables. Left out when there is nothing."""


def build_written_job(found: JobWithTasks, warnings: Sequence[str]) -> WrittenJob:
    return WrittenJob.from_row(found.job, **_get_work_fields(found), warnings=list(warnings))


def build_job_record(found: JobWithTasks) -> JobRecord:
    return JobRecord.from_row(found.job, **_get_work_fields(found))


def _get_work_fields(found: JobWithTasks) -> dict[str, Any]:
    state = found.execution_state
    return {"task_ids": list(found.task_ids), "execution_status": state.public, "execution_state": state}
