"""Projects as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from api.kit.schemas import Record
from core.definitions.projects.repository import ProjectWithJobs


class ProjectRecord(Record):
    id: str
    """Id of the project."""
    name: str
    slug: str
    """Its schema in SQL."""
    description: str | None
    cron_schedule: str | None
    enabled: bool
    """Whether its jobs may be executed."""
    driver_reuse: bool
    """Whether its executions may share drivers with Spark, unless a job or the service says no."""
    parameters: dict[str, Any]
    job_ids: list[str]
    """Ids of its jobs, oldest first."""
    created_at: datetime
    updated_at: datetime


def build_project_record(record: ProjectWithJobs) -> ProjectRecord:
    return ProjectRecord.from_row(record.project, job_ids=list(record.job_ids))
