"""Operations on the projects of the caller's organization; others are unknown to it (NotFound)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import Identity
from core.definitions.projects.models import ProjectCreate, ProjectUpdate
from core.definitions.projects.repository import EndExecutions, ProjectRepository, ProjectWithJobs
from core.infra.database import Database
from core.infra.preconditions import Versioned, compute_etag


def list_projects(
    session: Session, caller: Identity, *, limit: int | None = None, after: str | None = None
) -> Sequence[ProjectWithJobs]:
    return ProjectRepository(session, caller.organization_id).list_with_jobs(limit=limit, after=after)


def get(database: Database, caller: Identity, project_id: str) -> Versioned[ProjectWithJobs]:
    """Read one project without a session, which is faster."""
    found = ProjectRepository.fetch(database, caller.organization_id, project_id)
    return Versioned(found, compute_etag(found.project))


def get_by_name(session: Session, caller: Identity, name: str) -> Versioned[ProjectWithJobs]:
    projects = ProjectRepository(session, caller.organization_id)
    return _load(projects, projects.get_by_name(name).id)


def create(session: Session, caller: Identity, new: ProjectCreate) -> Versioned[ProjectWithJobs]:
    projects = ProjectRepository(session, caller.organization_id)
    return _load(projects, projects.create(new).id)


def update(
    session: Session, caller: Identity, project_id: str, changes: ProjectUpdate, if_match: Collection[str]
) -> Versioned[ProjectWithJobs]:
    projects = ProjectRepository(session, caller.organization_id)
    projects.lock(projects.get(project_id), if_match)
    projects.update(project_id, changes)
    return _load(projects, project_id)


def delete(
    session: Session, caller: Identity, project_id: str, if_match: Collection[str], end_executions: EndExecutions
) -> None:
    projects = ProjectRepository(session, caller.organization_id)
    projects.lock(projects.get(project_id), if_match)
    projects.delete(project_id, end_executions)


def _load(projects: ProjectRepository, project_id: str) -> Versioned[ProjectWithJobs]:
    found = projects.get_with_jobs(project_id)
    return Versioned(found, compute_etag(found.project))
