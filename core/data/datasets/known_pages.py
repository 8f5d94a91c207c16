"""The known pages of a job: a folder of the storage, which the job's dataset names."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.data.datasets.versions import schedule_removals
from core.definitions.identity.api_keys import Identity
from core.definitions.jobs.repository import JobRepository, JobWithTasks
from core.infra.repository import lock_organization
from core.tables import Dataset, now

_KEPT = timedelta(days=1)  # executions that have begun may still read the earlier pages


def find_dataset(session: Session, organization_id: str, job_id: str) -> Dataset | None:
    """Return the dataset that a job publishes to."""
    return session.scalar(select(Dataset).where(Dataset.organization_id == organization_id, Dataset.job_id == job_id))


def replace_known_pages(session: Session, dataset: Dataset, location: str | None) -> None:
    """Let the dataset's job know other pages, or none. The caller has locked the organization."""
    earlier, dataset.known_pages = dataset.known_pages, location
    if earlier is not None and earlier != location:
        schedule_removals(session, dataset.organization_id, [earlier], now() + _KEPT)


def reset(session: Session, caller: Identity, project_id: str, job_id: str) -> JobWithTasks:
    """Forget the pages that a job knows, so that its next execution asks for all of them; raise NotFound."""
    jobs = JobRepository(session, caller.organization_id, viewer_key_id=caller.viewer_key_id)
    found = jobs.get_with_tasks(project_id, job_id)
    lock_organization(session, caller.organization_id)
    if dataset := find_dataset(session, caller.organization_id, job_id):
        replace_known_pages(session, dataset, None)
    return found
