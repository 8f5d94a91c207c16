"""What the executions of a project, or of a job, used and cost in a period."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from api.kit.auth import KeyRoute, Reader
from api.kit.errors import answers
from api.kit.schemas import JobId, ProjectId
from api.kit.services import ServicesOf
from api.metrics.periods import PeriodOf
from api.metrics.schemas import JobMetrics, ProjectMetrics, job_metrics, project_metrics
from core.jobs.repository import JobRepository
from core.metrics.totals import overview
from core.projects.repository import ProjectRepository

router = APIRouter(tags=["metrics"], route_class=KeyRoute)
Grouping = Annotated[
    Literal["job", "pipeline"], Query(alias="groupBy", description="What the breakdown has a line for.")
]


@router.get("/metrics", summary="What a project's executions used and cost in a period", responses=answers(404))
def read_project_metrics(
    project_id: ProjectId, caller: Reader, services: ServicesOf, period: PeriodOf, group_by: Grouping = "job"
) -> ProjectMetrics:
    with services.database.read() as session:
        ProjectRepository(session, caller.organization_id).get(project_id)
        found = overview(session, caller.organization_id, period, group_by, project_id=project_id)
        return project_metrics(project_id, found)


@router.get(
    "/jobs/{jobId}/metrics",
    summary="What a job's executions used and cost in a period, by the pipelines that it had",
    responses=answers(404),
)
def read_job_metrics(
    project_id: ProjectId, job_id: JobId, caller: Reader, services: ServicesOf, period: PeriodOf
) -> JobMetrics:
    with services.database.read() as session:
        JobRepository(session, caller.organization_id).get(project_id, job_id)
        found = overview(session, caller.organization_id, period, "pipeline", project_id=project_id, job_id=job_id)
        return job_metrics(project_id, job_id, found)
