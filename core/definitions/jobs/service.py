"""Operations on the jobs of the caller's organization. A job may only use agents that the caller may see."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import Identity
from core.definitions.jobs.models import JobCreate, JobUpdate
from core.definitions.jobs.repository import JobRepository, JobWithTasks
from core.definitions.projects.repository import EndExecutions
from core.infra.database import Database
from core.infra.preconditions import Versioned, compute_etag
from core.tables import Execution, Job


def list_jobs(
    session: Session, caller: Identity, project_id: str, *, limit: int | None = None, after: str | None = None
) -> Sequence[JobWithTasks]:
    return _open_repository(session, caller).list_with_tasks(project_id, limit=limit, after=after)


def get(database: Database, caller: Identity, project_id: str, job_id: str) -> Versioned[JobWithTasks]:
    """Read one job without a session, which is faster."""
    found = JobRepository.fetch(database, caller.organization_id, project_id, job_id)
    return Versioned(found, compute_etag(found.job))


def create(session: Session, caller: Identity, project_id: str, new: JobCreate) -> Versioned[JobWithTasks]:
    jobs = _open_repository(session, caller)
    job = jobs.create(project_id, new)
    jobs.check_dependencies(job)
    jobs.check_pools(job)
    return _load(jobs, project_id, job.id)


def update(
    session: Session, caller: Identity, project_id: str, job_id: str, changes: JobUpdate, if_match: Collection[str]
) -> Versioned[JobWithTasks]:
    jobs = _open_repository(session, caller)
    jobs.lock(jobs.get(project_id, job_id), if_match)
    job = jobs.update(project_id, job_id, changes)
    if changes.depends_on is not None:
        jobs.check_dependencies(job)
    if changes.pools is not None:
        jobs.check_pools(job)
    return _load(jobs, project_id, job_id)


def delete(
    session: Session,
    caller: Identity,
    project_id: str,
    job_id: str,
    if_match: Collection[str],
    end_executions: EndExecutions,
) -> None:
    jobs = _open_repository(session, caller)
    jobs.lock(jobs.get(project_id, job_id), if_match)
    jobs.delete(project_id, job_id, end_executions)


def get_newest_execution(session: Session, caller: Identity, project_id: str, job_id: str) -> Execution | None:
    return _open_repository(session, caller).get_newest_execution(project_id, job_id)


def find_job_of_agent(session: Session, caller: Identity, agent_id: str) -> Job | None:
    """Return the oldest job that runs an agent; None without one."""
    return _open_repository(session, caller).find_of_agent(agent_id)


def _open_repository(session: Session, caller: Identity) -> JobRepository:
    return JobRepository(session, caller.organization_id, viewer_key_id=caller.viewer_key_id)


def _load(jobs: JobRepository, project_id: str, job_id: str) -> Versioned[JobWithTasks]:
    found = jobs.get_with_tasks(project_id, job_id)
    return Versioned(found, compute_etag(found.job))
