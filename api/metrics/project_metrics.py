"""What the executions of a project, or of a job, used and cost in a period."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from api.kit.auth import KeyRoute, Reader
from api.kit.errors import answers
from api.kit.schemas import JobId, ProjectId
from api.kit.service import ServiceOf
from api.metrics.periods import PeriodOf
from api.metrics.schemas import JobMetrics, ProjectMetrics, job_metrics, project_metrics
from core.jobs.repository import Jobs
from core.metrics.totals import overview
from core.projects.repository import Projects

router = APIRouter(tags=["metrics"], route_class=KeyRoute)
Grouping = Annotated[
    Literal["job", "pipeline"], Query(alias="groupBy", description="What the breakdown has a line for.")
]


@router.get("/metrics", summary="What a project's executions used and cost in a period", responses=answers(404))
def read_project_metrics(
    project_id: ProjectId, caller: Reader, service: ServiceOf, period: PeriodOf, group_by: Grouping = "job"
) -> ProjectMetrics:
    with service.database.read() as session:
        Projects(session, caller.organization_id).get(project_id)
        found = overview(session, caller.organization_id, period, group_by, project_id=project_id)
        return project_metrics(project_id, found)


@router.get(
    "/jobs/{jobId}/metrics",
    summary="What a job's executions used and cost in a period, by the pipelines that it had",
    responses=answers(404),
)
def read_job_metrics(
    project_id: ProjectId, job_id: JobId, caller: Reader, service: ServiceOf, period: PeriodOf
) -> JobMetrics:
    with service.database.read() as session:
        Jobs(session, caller.organization_id).get(project_id, job_id)
        found = overview(session, caller.organization_id, period, "pipeline", project_id=project_id, job_id=job_id)
        return job_metrics(project_id, job_id, found)
