"""Jobs: create, list, read, update, delete, stop; logs of their newest execution."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from api.executions.schemas import ExecutorIndex, Level, Logs, PodType
from api.jobs.schemas import JobRecord, WrittenJob, build_job_record, build_written_job
from api.kit.auth import Executor, KeyRoute, Reader, Writer
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, IfMatch, set_etag
from api.kit.schemas import JobId, Nothing, ProjectId
from api.kit.services import ServicesOf
from api.kit.sessions import ReadSession, WriteSession
from core.data.datasets import known_pages
from core.definitions.jobs import service as jobs
from core.definitions.jobs.models import JobCreate, JobUpdate
from core.lifecycle.executions.transitions import end_executions
from core.lifecycle.outlines.outlines import find_cycle_warnings
from core.lifecycle.tasks import service as tasks

ONE_DRIVER = "Accepted and ignored: an execution has a single driver, whose log is returned."
router = APIRouter(prefix="/jobs", tags=["jobs"], route_class=KeyRoute)


@router.get("", summary="List the jobs of a project", responses=answers(404))
def list_jobs(project_id: ProjectId, caller: Reader, session: ReadSession, page: PageOf) -> list[JobRecord]:
    """Return the project's jobs, oldest first.

    With `limit` the answer is a page, and the `Link` header has the next one.
    """
    found = jobs.list_jobs(session, caller, project_id, limit=page.limit, after=page.after)
    page.link([each.job.id for each in found])
    return [build_job_record(each) for each in found]


@router.post("", dependencies=[REPLAYED], summary="Create a job", responses={**TAGGED, **answers(404)})
def create_job(
    project_id: ProjectId, body: JobCreate, caller: Writer, session: WriteSession, response: Response
) -> WrittenJob:
    """Store a job, which runs an agent's pipeline with its own parameters, input dataset and credentials.

    It needs an agent before it can be executed.
    """
    created = set_etag(response, jobs.create(session, caller, project_id, body))
    return build_written_job(created, find_cycle_warnings(session, caller.organization_id, job_ids=[created.job.id]))


@router.get("/{jobId}", summary="Read a job", responses={**TAGGED, **answers(404)})
def read_job(
    project_id: ProjectId, job_id: JobId, caller: Reader, services: ServicesOf, response: Response
) -> JobRecord:
    """Return a job with its state, the ids of its tasks, and its newest execution and dataset."""
    return build_job_record(set_etag(response, jobs.get(services.database, caller, project_id, job_id)))


@router.put(
    "/{jobId}",
    summary="Change a job; what the body leaves out stays",
    responses={**TAGGED, **answers(404, 412)},
)
def update_job(
    project_id: ProjectId,
    job_id: JobId,
    body: JobUpdate,
    caller: Writer,
    session: WriteSession,
    if_match: IfMatch,
    response: Response,
) -> WrittenJob:
    """Change the fields that the body has. An empty text in an optional id or time removes its value."""
    updated = set_etag(response, jobs.update(session, caller, project_id, job_id, body, if_match))
    return build_written_job(updated, find_cycle_warnings(session, caller.organization_id, job_ids=[job_id]))


@router.delete("/{jobId}", summary="Delete a job with its executions and its dataset", responses=answers(404, 412))
def delete_job(
    project_id: ProjectId, job_id: JobId, caller: Writer, session: WriteSession, if_match: IfMatch
) -> Nothing:
    """Cancel the job's executions and delete it with its tasks, executions and dataset. This cannot be undone."""
    jobs.delete(session, caller, project_id, job_id, if_match, end_executions)
    return Nothing()


@router.post("/{jobId}/stop", summary="Cancel all executions of a job that have not ended", responses=answers(404))
def stop_job(project_id: ProjectId, job_id: JobId, caller: Executor, session: WriteSession) -> JobRecord:
    """Cancel all executions of the job that have not ended, queued ones too, and return the job."""
    return build_job_record(tasks.stop_job(session, caller, project_id, job_id))


@router.post("/{jobId}/reset", summary="Forget the pages that a job knows", responses=answers(404))
def reset_job(project_id: ProjectId, job_id: JobId, caller: Writer, session: WriteSession) -> JobRecord:
    """Let the next execution of an incremental pipeline fetch all pages again, and return the job.

    An execution that has begun before publishes nothing. The rows of the job's dataset stay.
    """
    return build_job_record(known_pages.reset(session, caller, project_id, job_id))


@router.get(
    "/{jobId}/logs",
    summary="Last lines of the log of a job's newest execution",
    description="Empty before the first one.",
    responses=answers(404),
)
def read_job_logs(
    project_id: ProjectId,
    job_id: JobId,
    caller: Reader,
    services: ServicesOf,
    pod_type: PodType = "driver",
    tail: Annotated[int, Query(ge=0, le=10_000, description="Most lines of the answer.")] = 100,
    level: Annotated[Level | None, Query(description="Least level of a line.")] = None,
    task_id: Annotated[
        str | None, Query(alias="taskId", description="The log of what this task ran, in place of the newest.")
    ] = None,
    executor_index: ExecutorIndex = None,
    _pod_name: Annotated[str | None, Query(alias="podName", description=ONE_DRIVER)] = None,
) -> Logs:
    with services.database.read() as session:
        if task_id is None:
            execution = jobs.get_newest_execution(session, caller, project_id, job_id)
        else:
            execution = tasks.get(session, caller, project_id, job_id, task_id).value.execution
    if execution is None:
        return Logs(logs=[])
    lines = services.executions.read_logs(
        caller,
        project_id,
        job_id,
        execution.id,
        tail=tail,
        level=level,
        pod_type=pod_type,
        executor=executor_index,
    )
    return Logs(logs=lines)
