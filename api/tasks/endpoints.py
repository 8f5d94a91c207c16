"""Tasks, the runs of a job: create, list, read, update, delete, start, stop."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from api.executions.schemas import Queue
from api.kit.auth import Admin, Executor, KeyRoute, Reader, Writer
from api.kit.encryption import KeyRingOf
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED, Idempotent
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, IfMatch, set_etag
from api.kit.schemas import JobId, ProjectId, TaskId
from api.kit.services import ServicesOf
from api.kit.sessions import ReadSession, WriteSession
from api.tasks.schemas import (
    TaskMetrics,
    TaskRecord,
    TaskStatus,
    ZombieCleanup,
    build_task_metrics,
    build_task_record,
    build_zombie_cleanup,
)
from core.lifecycle.executions.reconcile import MAX_HOURS
from core.lifecycle.submission.planning import SubmitRequest
from core.lifecycle.submission.submit import submit
from core.lifecycle.tasks import service as tasks
from core.lifecycle.tasks.models import TaskCreate, TaskUpdate

DEFAULT_TIMEOUT_HOURS = 24
router = APIRouter(prefix="/jobs/{jobId}/tasks", tags=["tasks"], route_class=KeyRoute)
administration = APIRouter(prefix="/projects/admin/tasks", tags=["tasks"], route_class=KeyRoute)


@router.get("", summary="List the tasks of a job", responses=answers(404))
def list_tasks(
    project_id: ProjectId, job_id: JobId, caller: Reader, session: ReadSession, page: PageOf
) -> list[TaskRecord]:
    """Return the job's tasks, oldest first.

    Each execution of a job has a task. With `limit` the answer is a page, and the `Link` header has the next one.
    """
    found = tasks.list_tasks(session, caller, project_id, job_id, limit=page.limit, after=page.number)
    page.link([each.task.id for each in found])
    return [build_task_record(each) for each in found]


@router.post("", dependencies=[REPLAYED], summary="Create a task", responses={**TAGGED, **answers(404)})
def create_task(
    project_id: ProjectId,
    job_id: JobId,
    body: TaskCreate,
    caller: Writer,
    session: WriteSession,
    services: ServicesOf,
    response: Response,
) -> TaskRecord:
    """Store a task, which does not run until it is started. Executing a job creates a task, too."""
    return build_task_record(
        set_etag(response, tasks.create(session, services.settings, caller, project_id, job_id, body))
    )


@router.get("/{taskId}", summary="Read a task", responses={**TAGGED, **answers(404)})
def read_task(
    project_id: ProjectId, job_id: JobId, task_id: TaskId, caller: Reader, session: ReadSession, response: Response
) -> TaskRecord:
    """Return a task with the state and log of the execution that it started last."""
    return build_task_record(set_etag(response, tasks.get(session, caller, project_id, job_id, task_id)))


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
    session: WriteSession,
    services: ServicesOf,
    if_match: IfMatch,
    response: Response,
) -> TaskRecord:
    """Change the fields that the body has.

    An empty text in `botId` or `scheduledTime` removes its value, and a masked `apiKey` keeps it.
    """
    updated = tasks.update(session, services.settings, caller, project_id, job_id, task_id, body, if_match)
    return build_task_record(set_etag(response, updated))


@router.delete(
    "/{taskId}",
    summary="Delete a task; its executions stay",
    response_class=Response,
    responses=answers(404, 412),
)
def delete_task(
    project_id: ProjectId, job_id: JobId, task_id: TaskId, caller: Writer, session: WriteSession, if_match: IfMatch
) -> Response:
    """Cancel the task's execution, if it is running, and delete the task.

    Its executions and their datasets stay. The answer has no body.
    """
    tasks.delete(session, caller, project_id, job_id, task_id, if_match)
    return Response()


@router.get("/{taskId}/status", summary="Status and progress of a task", responses=answers(404))
def read_task_status(
    project_id: ProjectId, job_id: JobId, task_id: TaskId, caller: Reader, session: ReadSession
) -> TaskStatus:
    """Return the state of the task's last execution, and the fraction of its stages that are completed."""
    found = tasks.get(session, caller, project_id, job_id, task_id).value
    return TaskStatus(status=found.status, progress=found.progress)


@router.get("/{taskId}/metrics", summary="Metrics of a task", responses=answers(404))
def read_task_metrics(
    project_id: ProjectId, job_id: JobId, task_id: TaskId, caller: Reader, session: ReadSession
) -> TaskMetrics:
    """Return the metrics that the task's `executionLog` has. A metric that it lacks is null."""
    return build_task_metrics(tasks.get(session, caller, project_id, job_id, task_id).value)


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
    """Submit an execution that is bound to this task; the answer has no body.

    A task that is disabled or running already is 409.
    """
    request = SubmitRequest(
        organization_id=caller.organization_id,
        project_id=project_id,
        job_id=job_id,
        key_ring=key_ring,
        task_id=task_id,
        idempotency_key=idempotency_key,
        queue=queue,
    )
    submit(services.database, services.settings, request)
    return Response()


@router.post("/{taskId}/stop", summary="Cancel what the task runs", response_class=Response, responses=answers(404))
def stop_task(
    project_id: ProjectId, job_id: JobId, task_id: TaskId, caller: Executor, session: WriteSession
) -> Response:
    """Cancel the task's execution if it has not ended. The answer has no body."""
    tasks.stop(session, caller, project_id, job_id, task_id)
    return Response()


@administration.post("/mark-zombies", summary="Fail what has been running for longer than a number of hours")
def mark_zombie_tasks(
    caller: Admin,
    services: ServicesOf,
    timeout_hours: Annotated[
        int,
        Query(
            alias="timeoutHours",
            description="Hours since the start after which an execution is failed.",
            json_schema_extra={"minimum": 0, "maximum": MAX_HOURS},
        ),
    ] = DEFAULT_TIMEOUT_HOURS,
) -> ZombieCleanup:
    """Fail all executions of the organization that have been running for longer than `timeoutHours`, and return the ids
    of their tasks."""
    return build_zombie_cleanup(services.executions.fail_zombies(caller, timeout_hours))
