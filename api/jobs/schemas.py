"""Jobs as JSON."""

from __future__ import annotations

from api.kit.schemas import Record
from core.definitions.jobs.models import StoredJob
from core.definitions.jobs.repository import JobWithTasks


class JobRecord(StoredJob, Record):
    execution_status: str
    """State of its newest execution: PENDING, RUNNING, COMPLETED or FAILED; PENDING before the first one."""
    task_ids: list[str]
    """Ids of its tasks, oldest first."""


def build_job_record(found: JobWithTasks) -> JobRecord:
    return JobRecord.from_row(found.job, task_ids=list(found.task_ids), execution_status=found.execution_status)
