"""Operations on projects, one transaction each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from core.identity.api_keys import Identity
from core.infra.database import Database
from core.infra.preconditions import Versioned, compute_etag
from core.projects.repository import ProjectRepository, ProjectWithJobs
from core.tables import Project


class ProjectService:
    """Every method works on the projects of the caller's organization; others are unknown to it (NotFound)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(
        self, caller: Identity, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[ProjectWithJobs]:
        with self._database.read() as session:
            projects = ProjectRepository(session, caller.organization_id)
            return projects.load_job_ids(projects.list(limit=limit, after=after))

    def get(self, caller: Identity, project_id: str) -> Versioned[ProjectWithJobs]:
        with self._database.read() as session:
            projects = ProjectRepository(session, caller.organization_id)
            return _load(projects, projects.get(project_id))

    def get_by_name(self, caller: Identity, name: str) -> Versioned[ProjectWithJobs]:
        with self._database.read() as session:
            projects = ProjectRepository(session, caller.organization_id)
            return _load(projects, projects.get_by_name(name))

    def create(self, caller: Identity, values: Mapping[str, Any]) -> Versioned[ProjectWithJobs]:
        with self._database.write() as session:
            projects = ProjectRepository(session, caller.organization_id)
            return _load(projects, projects.create(values))

    def update(
        self, caller: Identity, project_id: str, changes: Mapping[str, Any], if_match: Collection[str]
    ) -> Versioned[ProjectWithJobs]:
        with self._database.write() as session:
            projects = ProjectRepository(session, caller.organization_id)
            projects.lock(projects.get(project_id), if_match)
            return _load(projects, projects.update(project_id, changes))

    def delete(self, caller: Identity, project_id: str, if_match: Collection[str]) -> None:
        with self._database.write() as session:
            projects = ProjectRepository(session, caller.organization_id)
            projects.lock(projects.get(project_id), if_match)
            projects.delete(project_id)


def _load(projects: ProjectRepository, project: Project) -> Versioned[ProjectWithJobs]:
    return Versioned(projects.load_job_ids([project])[0], compute_etag(project))
