"""Operations on projects, one transaction each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from core.definitions.identity.api_keys import Identity
from core.definitions.projects.repository import EndExecutions, ProjectRepository, ProjectWithJobs
from core.infra.database import Database
from core.infra.preconditions import Versioned, compute_etag


class ProjectService:
    """Every method works on the projects of the caller's organization; others are unknown to it (NotFound)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(
        self, caller: Identity, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[ProjectWithJobs]:
        with self._database.read() as session:
            return ProjectRepository(session, caller.organization_id).list_with_jobs(limit=limit, after=after)

    def get(self, caller: Identity, project_id: str) -> Versioned[ProjectWithJobs]:
        found = ProjectRepository.fetch(self._database, caller.organization_id, project_id)
        return Versioned(found, compute_etag(found.project))

    def get_by_name(self, caller: Identity, name: str) -> Versioned[ProjectWithJobs]:
        with self._database.read() as session:
            projects = ProjectRepository(session, caller.organization_id)
            return _load(projects, projects.get_by_name(name).id)

    def create(self, caller: Identity, values: Mapping[str, Any]) -> Versioned[ProjectWithJobs]:
        with self._database.write() as session:
            projects = ProjectRepository(session, caller.organization_id)
            return _load(projects, projects.create(values).id)

    def update(
        self, caller: Identity, project_id: str, changes: Mapping[str, Any], if_match: Collection[str]
    ) -> Versioned[ProjectWithJobs]:
        with self._database.write() as session:
            projects = ProjectRepository(session, caller.organization_id)
            projects.lock(projects.get(project_id), if_match)
            projects.update(project_id, changes)
            return _load(projects, project_id)

    def delete(
        self, caller: Identity, project_id: str, if_match: Collection[str], end_executions: EndExecutions
    ) -> None:
        with self._database.write() as session:
            projects = ProjectRepository(session, caller.organization_id)
            projects.lock(projects.get(project_id), if_match)
            projects.delete(project_id, end_executions)


def _load(projects: ProjectRepository, project_id: str) -> Versioned[ProjectWithJobs]:
    found = projects.get_with_jobs(project_id)
    return Versioned(found, compute_etag(found.project))
