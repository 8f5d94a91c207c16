"""Tasks: the runs of a job."""

from __future__ import annotations

from fastapi import APIRouter, Response

from api.executions.schemas import Queue
from api.kit.auth import Executor, KeyRoute, Reader, Writer
from api.kit.encryption import KeyRingOf
from api.kit.errors import answers
from api.kit.idempotency import Idempotent
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, ExpectedOf, TagOf
from api.kit.schemas import JobId, Nothing, ProjectId, TaskId
from api.kit.services import ServicesOf
from api.tasks.schemas import (
    TaskCreate,
    TaskMetrics,
    TaskRecord,
    TaskStatus,
    TaskUpdate,
    task_metrics,
    task_record,
)
from core.executions.submit import submit
from core.tasks.repository import TaskRepository, stop

router = APIRouter(prefix="/jobs/{jobId}/tasks", tags=["tasks"], route_class=KeyRoute)


@router.get("", summary="List the tasks of a job", responses=answers(404))
def list_tasks(
    project_id: ProjectId, job_id: JobId, caller: Reader, services: ServicesOf, page: PageOf
) -> list[TaskRecord]:
    with services.database.read() as session:
        tasks = TaskRepository(session, caller.organization_id).list(
            project_id, job_id, limit=page.limit, after=page.number
        )
        page.link([stored.task.id for stored in tasks])
        return [task_record(stored) for stored in tasks]


@router.post("", summary="Create a task", responses={**TAGGED, **answers(404)})
def create_task(
    project_id: ProjectId, job_id: JobId, body: TaskCreate, caller: Writer, services: ServicesOf, tag: TagOf
) -> TaskRecord:
    with services.database.write() as session:
        stored = TaskRepository(session, caller.organization_id).create(project_id, job_id, body.values())
        tag.put(stored.task)
        return task_record(stored)


@router.get("/{taskId}", summary="Read a task", responses={**TAGGED, **answers(404)})
def read_task(
    project_id: ProjectId, job_id: JobId, task_id: TaskId, caller: Reader, services: ServicesOf, tag: TagOf
) -> TaskRecord:
    with services.database.read() as session:
        stored = TaskRepository(session, caller.organization_id).get(project_id, job_id, task_id)
        tag.put(stored.task)
        return task_record(stored)


@router.put(
    "/{taskId}",
    summary="Change a task; what the body leaves out stays",
    responses={**TAGGED, **answers(404, 412)},
)
def update_task(
    project_id: ProjectId,
    job_id: JobId,
    task_id: TaskId,
    body: TaskUpdate,
    caller: Writer,
    services: ServicesOf,
    expected: ExpectedOf,
) -> TaskRecord:
    with services.database.write() as session:
        tasks = TaskRepository(session, caller.organization_id)
        expected.hold(session, caller, tasks.get(project_id, job_id, task_id).task, project_id)
        stored = tasks.update(project_id, job_id, task_id, body.values())
        expected.put(stored.task)
        return task_record(stored)


@router.delete("/{taskId}", summary="Delete a task; its executions stay", responses=answers(404, 412))
def delete_task(
    project_id: ProjectId, job_id: JobId, task_id: TaskId, caller: Writer, services: ServicesOf, expected: ExpectedOf
) -> Nothing:
    with services.database.write() as session:
        tasks = TaskRepository(session, caller.organization_id)
        expected.hold(session, caller, tasks.get(project_id, job_id, task_id).task, project_id)
        tasks.delete(project_id, job_id, task_id)
    return Nothing()


@router.get("/{taskId}/status", summary="Status and progress of a task", responses=answers(404))
def read_task_status(
    project_id: ProjectId, job_id: JobId, task_id: TaskId, caller: Reader, services: ServicesOf
) -> TaskStatus:
    with services.database.read() as session:
        stored = TaskRepository(session, caller.organization_id).get(project_id, job_id, task_id)
        return TaskStatus(status=stored.status, progress=stored.progress)


@router.get("/{taskId}/metrics", summary="Metrics of a task", responses=answers(404))
def read_task_metrics(
    project_id: ProjectId, job_id: JobId, task_id: TaskId, caller: Reader, services: ServicesOf
) -> TaskMetrics:
    with services.database.read() as session:
        return task_metrics(TaskRepository(session, caller.organization_id).get(project_id, job_id, task_id))


@router.post(
    "/{taskId}/start",
    summary="Execute the job as this task",
    response_class=Response,
    responses=answers(404, 409, 429),
)
def start_task(
    project_id: ProjectId,
    job_id: JobId,
    task_id: TaskId,
    caller: Executor,
    services: ServicesOf,
    idempotency_key: Idempotent,
    key_ring: KeyRingOf,
    queue: Queue = False,
) -> Response:
    submit(
        services.database,
        caller.organization_id,
        project_id,
        job_id,
        key_ring=key_ring,
        task_id=task_id,
        idempotency_key=idempotency_key,
        queue=queue,
    )
    return Response()


@router.post("/{taskId}/stop", summary="Cancel what the task runs", response_class=Response, responses=answers(404))
def stop_task(
    project_id: ProjectId, job_id: JobId, task_id: TaskId, caller: Executor, services: ServicesOf
) -> Response:
    with services.database.write() as session:
        stop(session, caller.organization_id, project_id, job_id, task_id)
    return Response()
