"""Finding jobs by the keys of their assets: the slugs of project and job, with the organization's in front or not."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.identity.organizations import is_shared
from core.errors import NotFound
from core.tables import Job, Organization, Project


def make_job_key(session: Session, job: Job) -> tuple[str, ...]:
    """Return the key of a job's asset."""
    query = select(Organization.slug, Project.slug).join(Project, Project.organization_id == Organization.id)
    organization, project = session.execute(query.where(Project.id == job.project_id)).one()
    return (organization, project, job.slug) if is_shared(session) else (project, job.slug)


def find_job_ids(session: Session, keys: Sequence[Sequence[str]]) -> list[str]:
    """Return the ids of the jobs with these keys, in their order.

    Raises NotFound for a job that was deleted, and for a key without organization where there is more than one.
    """
    only_one = not is_shared(session)
    found: list[str] = []
    for key in keys:
        query = select(Job.id).join(Project, Project.id == Job.project_id)
        query = query.join(Organization, Organization.id == Job.organization_id)
        *organization, project, job = key
        if organization:
            query = query.where(Organization.slug == organization[0])
        job_id = session.scalar(query.where(Project.slug == project, Job.slug == job))
        if job_id is None or not (organization or only_one):
            raise NotFound(f"There is no job {'/'.join(key)}. It may have been deleted, or is being loaded.")
        found.append(job_id)
    return found
