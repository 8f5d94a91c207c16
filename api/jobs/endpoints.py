"""Jobs: an agent's pipeline in a project."""

from __future__ import annotations

from fastapi import APIRouter
from sqlalchemy.orm import Session

from api.categories.endpoints import visible
from api.jobs.schemas import JobCreate, JobRecord, JobUpdate, job_record
from api.kit.auth import Executor, KeyRoute, Reader, Writer
from api.kit.errors import answers
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, ExpectedOf, TagOf
from api.kit.schemas import JobId, Nothing, ProjectId
from api.kit.services import ServicesOf
from core.identity.api_keys import Identity
from core.jobs.repository import JobRepository

router = APIRouter(prefix="/jobs", tags=["jobs"], route_class=KeyRoute)


def _jobs(session: Session, caller: Identity) -> JobRepository:
    return JobRepository(session, caller.organization_id, viewer_key_id=visible(session, caller).viewer_key_id)


@router.get("", summary="List the jobs of a project", responses=answers(404))
def list_jobs(project_id: ProjectId, caller: Reader, services: ServicesOf, page: PageOf) -> list[JobRecord]:
    with services.database.read() as session:
        jobs = JobRepository(session, caller.organization_id).records(project_id, limit=page.limit, after=page.after)
        page.link([job["id"] for job in jobs])
        return [job_record(job) for job in jobs]


@router.post("", summary="Create a job", responses={**TAGGED, **answers(404)})
def create_job(project_id: ProjectId, body: JobCreate, caller: Writer, services: ServicesOf, tag: TagOf) -> JobRecord:
    with services.database.write() as session:
        repository = _jobs(session, caller)
        job = repository.record(repository.create(project_id, body.values()))
        tag.put(job)
        return job_record(job)


@router.get("/{jobId}", summary="Read a job", responses={**TAGGED, **answers(404)})
def read_job(project_id: ProjectId, job_id: JobId, caller: Reader, services: ServicesOf, tag: TagOf) -> JobRecord:
    with services.database.read() as session:
        repository = JobRepository(session, caller.organization_id)
        job = repository.record(repository.get(project_id, job_id))
        tag.put(job)
        return job_record(job)


@router.put(
    "/{jobId}",
    summary="Change a job; what the body leaves out stays",
    responses={**TAGGED, **answers(404, 412)},
)
def update_job(
    project_id: ProjectId, job_id: JobId, body: JobUpdate, caller: Writer, services: ServicesOf, expected: ExpectedOf
) -> JobRecord:
    with services.database.write() as session:
        repository = _jobs(session, caller)
        expected.hold(session, caller, repository.get(project_id, job_id), project_id)
        job = repository.record(repository.update(project_id, job_id, body.values()))
        expected.put(job)
        return job_record(job)


@router.delete("/{jobId}", summary="Delete a job with its executions and its dataset", responses=answers(404, 412))
def delete_job(
    project_id: ProjectId, job_id: JobId, caller: Writer, services: ServicesOf, expected: ExpectedOf
) -> Nothing:
    with services.database.write() as session:
        repository = JobRepository(session, caller.organization_id)
        expected.hold(session, caller, repository.get(project_id, job_id), project_id)
        repository.delete(project_id, job_id)
    return Nothing()


@router.post("/{jobId}/stop", summary="Cancel all executions of a job that have not ended", responses=answers(404))
def stop_job(project_id: ProjectId, job_id: JobId, caller: Executor, services: ServicesOf) -> JobRecord:
    with services.database.write() as session:
        repository = JobRepository(session, caller.organization_id)
        return job_record(repository.record(repository.stop(project_id, job_id)))
