"""Tasks: the runs of a job."""

from __future__ import annotations

from fastapi import APIRouter

from api.kit.auth import KeyRoute, Reader
from api.kit.errors import answers
from api.kit.pages import PageOf
from api.kit.schemas import JobId, ProjectId, TaskId
from api.kit.service import ServiceOf
from api.tasks.schemas import TaskRecord, TaskStatus, task_record
from core.tasks import Tasks

router = APIRouter(prefix="/jobs/{jobId}/tasks", tags=["tasks"], route_class=KeyRoute)


@router.get("", summary="List the tasks of a job", responses=answers(404))
def list_tasks(
    project_id: ProjectId, job_id: JobId, caller: Reader, service: ServiceOf, page: PageOf
) -> list[TaskRecord]:
    with service.database.read() as session:
        runs = Tasks(session, caller.organization_id).list(project_id, job_id, limit=page.limit, after=page.after)
        page.link([run.task.id for run in runs])
        return [task_record(run) for run in runs]


@router.get("/{taskId}", summary="Read a task", responses=answers(404))
def read_task(project_id: ProjectId, job_id: JobId, task_id: TaskId, caller: Reader, service: ServiceOf) -> TaskRecord:
    with service.database.read() as session:
        return task_record(Tasks(session, caller.organization_id).get(project_id, job_id, task_id))


@router.get("/{taskId}/status", summary="Status and progress of a task", responses=answers(404))
def read_task_status(
    project_id: ProjectId, job_id: JobId, task_id: TaskId, caller: Reader, service: ServiceOf
) -> TaskStatus:
    with service.database.read() as session:
        run = Tasks(session, caller.organization_id).get(project_id, job_id, task_id)
        return TaskStatus(status=run.status, progress=run.progress)
