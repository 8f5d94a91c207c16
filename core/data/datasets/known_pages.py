"""The known pages of a job: a folder of the storage, which the versions of the job's dataset name."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.data.datasets.versions import schedule_removals
from core.definitions.identity.api_keys import Identity
from core.definitions.jobs.repository import JobRepository, JobWithTasks
from core.infra.repository import lock_organization
from core.tables import Dataset, DatasetVersion, now

_KEPT = timedelta(days=1)  # executions that have begun may still read the earlier pages


def find_dataset(session: Session, organization_id: str, job_id: str) -> Dataset | None:
    """Return the dataset that a job publishes to."""
    return session.scalar(select(Dataset).where(Dataset.organization_id == organization_id, Dataset.job_id == job_id))


def find_known_pages(session: Session, organization_id: str, job_id: str) -> str | None:
    """Return the folder of the pages that a job knows: that of its dataset's current version."""
    dataset = find_dataset(session, organization_id, job_id)
    current = session.get(DatasetVersion, dataset.current_version_id or "") if dataset else None
    return current.known_pages if current else None


def replace_known_pages(
    session: Session, dataset: Dataset, location: str | None, execution_id: str | None = None
) -> None:
    """Let the dataset's job know other pages, or none, with its current version and that of an execution.

    The caller has locked the organization.
    """
    named = DatasetVersion.id == dataset.current_version_id
    if execution_id is not None:
        named |= (DatasetVersion.dataset_id == dataset.id) & (DatasetVersion.execution_id == execution_id)
    versions = session.scalars(select(DatasetVersion).where(named)).all()
    earlier = {version.known_pages for version in versions} - {None, location}
    for version in versions:
        version.known_pages = location
    schedule_removals(session, dataset.organization_id, filter(None, earlier), now() + _KEPT)


def reset(session: Session, caller: Identity, project_id: str, job_id: str) -> JobWithTasks:
    """Forget the pages that a job knows, so that its next execution requests all of them; raise NotFound."""
    jobs = JobRepository(session, caller.organization_id, viewer_key_id=caller.viewer_key_id)
    found = jobs.get_with_tasks(project_id, job_id)
    lock_organization(session, caller.organization_id)
    if dataset := find_dataset(session, caller.organization_id, job_id):
        replace_known_pages(session, dataset, None)
    return found
