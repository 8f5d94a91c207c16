"""Projects group jobs, their storage and their execution slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from sqlalchemy import ColumnElement, bindparam, select
from sqlalchemy.orm import Session

from core.definitions.cron_jobs.repository import delete_cron_jobs_of_project
from core.definitions.projects.models import ProjectCreate, ProjectUpdate
from core.definitions.schedules.cron import parse_cron
from core.definitions.schedules.repository import ScheduleRepository
from core.errors import Conflict
from core.infra.database import Database
from core.infra.repository import Repository, aggregate_ids, lock_organization
from core.infra.slugs import make_unique_slug
from core.infra.validation import check_not_reserved, is_storable
from core.tables import Execution, Job, Project

# cancels the executions that meet a condition, with a sentence as the reason, and frees their slots
EndExecutions = Callable[[Session, ColumnElement[bool], str], None]
RESERVED_SCHEMAS = frozenset({"default", "information_schema", "main", "pg_catalog", "system", "temp"})

_JOB_IDS = aggregate_ids(Job.id, Job.project_id == Project.id, Project)
_BY_ID = select(*Project.__table__.columns, _JOB_IDS.label("job_ids")).where(
    Project.organization_id == bindparam("organization_id"), Project.id == bindparam("id")
)


@dataclass(frozen=True, slots=True)
class ProjectWithJobs:
    """A project and the ids of its jobs, oldest first."""

    project: Project
    job_ids: Sequence[str]


class ProjectRepository(Repository[Project]):
    """The projects of one organization."""

    row = Project
    noun = "project"

    @classmethod
    def fetch(cls, database: Database, organization_id: str, project_id: str) -> ProjectWithJobs:
        """Read one project without a session."""
        return ProjectWithJobs(*cls._fetch(database, _BY_ID, organization_id=organization_id, id=project_id))

    def create(self, new: ProjectCreate) -> Project:
        """Store a new project; raise BadInput without a valid name, Conflict when the name is taken."""
        project = self.build(new)
        self._check_name_is_free(project.name)
        project.slug = make_unique_slug(project.name, self.load_slugs())
        self.session.add(project)
        self.session.flush()
        self.plan_schedule(project)
        return project

    def build(self, new: ProjectCreate) -> Project:
        """Return a valid project that is not stored yet: it has no slug, and its name may be taken."""
        columns = new.to_columns()
        if new.cron_schedule:
            parse_cron(new.cron_schedule)
        check_not_reserved(new.name)
        return Project(organization_id=self.organization_id, **columns)

    def list(self, *, limit: int | None = None, after: str | None = None) -> Sequence[Project]:
        return self._fetch_page(self._select(), limit, after)

    def get(self, project_id: str) -> Project:
        return self._fetch_by_id(project_id)

    def list_with_jobs(self, *, limit: int | None = None, after: str | None = None) -> Sequence[ProjectWithJobs]:
        query = self._limit_to_page(self._select().add_columns(_JOB_IDS), limit, after)
        return [ProjectWithJobs(*row) for row in self.session.execute(query)]

    def get_with_jobs(self, project_id: str) -> ProjectWithJobs:
        if not is_storable(project_id):
            raise self._not_found()
        query = self._select().add_columns(_JOB_IDS).where(Project.id == project_id)
        row = self.session.execute(query).one_or_none()
        if row is None:
            raise self._not_found()
        return ProjectWithJobs(*row)

    def get_by_name(self, name: str) -> Project:
        if not is_storable(name):
            raise self._not_found("name")
        return self._fetch_one(self._select().where(Project.name == name), "name")

    def update(self, project_id: str, changes: ProjectUpdate) -> Project:
        """Apply the changed fields. The slug stays, so a rename does not change names in SQL."""
        project, columns = self.get(project_id), changes.to_columns()
        if changes.name is not None and changes.name != project.name:
            check_not_reserved(changes.name)
            self._check_name_is_free(changes.name)
        if changes.cron_schedule and changes.cron_schedule != project.cron_schedule:
            parse_cron(changes.cron_schedule)
        self._apply(project, columns)
        self.plan_schedule(project)
        return project

    def plan_schedule(self, project: Project) -> None:
        """Let the project's schedule follow its cron expression."""
        ScheduleRepository(self.session, self.organization_id).plan(project)

    def delete(self, project_id: str, end_executions: EndExecutions) -> None:
        """End the project's executions, then delete it with its jobs, executions, datasets and cron jobs."""
        project = self.get(project_id)
        delete_cron_jobs_of_project(self.session, self.organization_id, project.id)
        end_executions(self.session, Execution.project_id == project.id, "The project was deleted.")
        self.session.delete(project)
        self.session.flush()

    def load_slugs(self) -> Set[str]:
        """Return the slugs that no new project may take."""
        used = select(Project.slug).where(Project.organization_id == self.organization_id)
        return RESERVED_SCHEMAS.union(self.session.scalars(used))

    def _check_name_is_free(self, name: str) -> None:
        lock_organization(self.session, self.organization_id)
        if self.session.scalar(self._select().where(Project.name == name)):
            raise Conflict("There is a project with this name already.", path="name", code="name-taken")
