"""The log of a job: that of its newest execution."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from api.executions.schemas import Level, Logs, PodType
from api.kit.auth import KeyRoute, Reader
from api.kit.errors import answers
from api.kit.schemas import JobId, ProjectId
from api.kit.services import ServicesOf
from core.infra.logs import execution_logs
from core.jobs.repository import JobRepository
from core.tasks.repository import TaskRepository

router = APIRouter(prefix="/jobs/{jobId}", tags=["jobs"], route_class=KeyRoute)
ONE_DRIVER = "Accepted, for compute that has several; the log of the one that there is, is answered."


@router.get(
    "/logs",
    summary="Last lines of the log of a job's newest execution",
    description="Empty before the first one.",
    responses=answers(404),
)
def read_job_logs(
    project_id: ProjectId,
    job_id: JobId,
    caller: Reader,
    services: ServicesOf,
    pod_type: Annotated[PodType, Query(alias="podType")] = "driver",
    tail: Annotated[int, Query(ge=0, le=10_000, description="Most lines of the answer.")] = 100,
    level: Annotated[Level | None, Query(description="Least level of a line.")] = None,
    task_id: Annotated[
        str | None, Query(alias="taskId", description="The log of what this task ran, in place of the newest.")
    ] = None,
    _executor_index: Annotated[str | None, Query(alias="executorIndex", description=ONE_DRIVER)] = None,
    _pod_name: Annotated[str | None, Query(alias="podName", description=ONE_DRIVER)] = None,
) -> Logs:
    with services.database.read() as session:
        jobs, tasks = JobRepository(session, caller.organization_id), TaskRepository(session, caller.organization_id)
        if task_id is None:
            execution = jobs.newest_execution(jobs.get(project_id, job_id))
        else:
            execution = tasks.get(project_id, job_id, task_id).execution
    if execution is None:
        return Logs(logs=[])
    return Logs(logs=execution_logs(services.storage, execution, tail=tail, level=level, pod_type=pod_type))
