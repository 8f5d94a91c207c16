"""Import of a package's contents into an organization: rows are matched by name, then changed or created."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.agents.models import AgentCreate, AgentUpdate
from core.definitions.agents.plan_outline import PlanOutline
from core.definitions.agents.repository import NO_PIPELINES, AgentRepository
from core.definitions.categories.models import CategoryCreate, CategoryUpdate
from core.definitions.categories.repository import CategoryRepository
from core.definitions.credentials.repository import get_job_credential_ids
from core.definitions.jobs.models import JobCreate, JobUpdate
from core.definitions.jobs.repository import JobRepository
from core.definitions.projects.models import ProjectCreate, ProjectUpdate
from core.definitions.projects.repository import ProjectRepository
from core.definitions.python_extensions.models import ExtensionCreate, ExtensionUpdate
from core.definitions.python_extensions.repository import PythonExtensionRepository
from core.definitions.schedules.models import ScheduleUpdate
from core.definitions.schedules.repository import ScheduleRepository
from core.definitions.schedules.times import is_past
from core.errors import BadInput, SpindleError
from core.exchange.packages.archive import reject
from core.exchange.packages.contents import AgentName, AgentPart, CategoryPart, Contents, CredentialName, ProjectPart
from core.infra.record_writer import Action, RecordChange, RecordWriter
from core.infra.repository import lock_organization
from core.infra.slugs import SlugAllocator
from core.tables import Agent, Category, CloudCredential, Dataset, Job, Project, Schedule
from pipelines.language.names import normalize

CREDENTIALS = "cloud_credential_ids"


@dataclass(slots=True)
class ImportReport:
    """The rows that an import created and changed, and references of the package that it could not resolve."""

    created: list[RecordChange] = field(default_factory=list[RecordChange])
    changed: list[RecordChange] = field(default_factory=list[RecordChange])
    unchanged: int = 0
    warnings: list[str] = field(default_factory=list[str])


def import_contents(
    session: Session,
    organization_id: str,
    contents: Contents,
    *,
    key_id: str | None = None,
    valid_pipelines: Mapping[str, PlanOutline] = NO_PIPELINES,
) -> ImportReport:
    """Import everything or raise BadInput, in the caller's transaction. Nothing is deleted.

    Args:
        key_id: The owner of private categories that are created.
        valid_pipelines: Pipelines that `find_valid_pipelines` returned; they are not checked again.
    """
    lock_organization(session, organization_id)
    return _Importer(session, organization_id, key_id, valid_pipelines).run(contents)


def select_project(contents: Contents, name: str) -> Contents:
    """Return one project with the agents and categories that it uses. Raises BadInput for an unknown project."""
    projects = tuple(project for project in contents.projects if project.name == name)
    if not projects:
        raise reject(f"It has no project '{name}'.", "projects", "not-found")
    used = {(job.agent.category, job.agent.name) for job in projects[0].jobs if job.agent}
    agents = tuple(agent for agent in contents.agents if (agent.category, agent.name) in used)
    category_names = {agent.category for agent in agents}
    categories = tuple(category for category in contents.categories if category.name in category_names)
    return contents.model_copy(update={"projects": projects, "agents": agents, "categories": categories})


class _Importer:
    """One import. New rows are inserted one kind at a time: inserting thousands row by row took most of a minute."""

    def __init__(
        self,
        session: Session,
        organization_id: str,
        key_id: str | None,
        valid_pipelines: Mapping[str, PlanOutline],
    ) -> None:
        self._session = session
        self._organization_id = organization_id
        self._key_id = key_id
        self._warnings: list[str] = []
        self._writer = RecordWriter(session, _reject_record, _get_value)
        self._agents = AgentRepository(session, organization_id, valid_pipelines=valid_pipelines)

    def run(self, contents: Contents) -> ImportReport:
        categories = self._import_categories(contents.categories)
        agents = self._import_agents(contents.agents, categories)
        self._import_extensions(contents.agents, agents)
        projects = self._import_projects(contents.projects)
        self._import_jobs(contents.projects, projects, agents)
        self._import_schedules(contents.projects, projects)
        changes = self._writer.changes
        return ImportReport(
            created=[each for each in changes if each.action is Action.CREATE],
            changed=[each for each in changes if each.action is Action.CHANGE],
            unchanged=self._writer.unchanged,
            warnings=self._warnings,
        )

    def _import_categories(self, parts: Sequence[CategoryPart]) -> Mapping[str, Category]:
        repository = CategoryRepository(self._session, self._organization_id)
        categories = {row.name: row for row in repository.list()}

        def create(values: Mapping[str, Any]) -> Category:
            return repository.build(CategoryCreate(**values), created_by_key_id=self._key_id)

        def update(category_id: str, values: Mapping[str, Any]) -> Category:
            return repository.update(category_id, CategoryUpdate(**values))

        for part in parts:
            row = categories.get(part.name)
            categories[part.name] = self._writer.write("category", part.name, row, part.model_dump(), create, update)
        self._session.flush()
        return categories

    def _import_agents(
        self, parts: Sequence[AgentPart], categories: Mapping[str, Category]
    ) -> Mapping[AgentName, Agent]:
        """Return the agents by the names that jobs use: the nth of a name matches the nth existing one."""
        category_names = {row.id: row.name for row in categories.values()}
        existing: defaultdict[tuple[str | None, str], list[Agent]] = defaultdict(list)
        for row in self._agents.list():
            existing[category_names.get(row.category_id or ""), row.name].append(row)

        def create(values: Mapping[str, Any]) -> Agent:
            return self._agents.build(AgentCreate(**values))

        def update(agent_id: str, values: Mapping[str, Any]) -> Agent:
            return self._agents.update(agent_id, AgentUpdate(**values))

        agents: dict[AgentName, Agent] = {}
        counts: Counter[tuple[str | None, str]] = Counter()
        for part in parts:
            if part.category is not None and part.category not in categories:
                raise reject(f"The category of agent '{part.label}' is not in it.", "agents")
            key = (part.category, part.name)
            counts[key] += 1
            row = existing[key].pop(0) if existing[key] else None
            values = part.model_dump(exclude={"category", "extensions"})
            values["category_id"] = categories[part.category].id if part.category else None
            name = AgentName(category=part.category, name=part.name, number=counts[key])
            agents[name] = self._writer.write("agent", part.label, row, values, create, update)
        self._session.flush()
        return agents

    def _import_extensions(self, parts: Sequence[AgentPart], agents: Mapping[AgentName, Agent]) -> None:
        repository = PythonExtensionRepository(self._session, self._organization_id)
        existing = {(row.agent_id, row.folded_name): row for row in repository.list()}
        for part, agent in zip(parts, agents.values(), strict=True):
            for extension in part.extensions:
                row = existing.get((agent.id, normalize(extension.name)))
                values = extension.model_dump() if row is None else {"source": extension.source}

                def create(values: Mapping[str, Any], agent_id: str = agent.id) -> Any:
                    return repository.create(agent_id, ExtensionCreate(**values))

                def update(extension_id: str, values: Mapping[str, Any]) -> Any:
                    return repository.update(extension_id, ExtensionUpdate(**values))

                label = f"{part.label}/{extension.name}"
                self._writer.write("python extension", label, row, values, create, update)

    def _import_projects(self, parts: Sequence[ProjectPart]) -> Sequence[Project]:
        repository = ProjectRepository(self._session, self._organization_id)
        existing = {row.name: row for row in repository.list()}
        slugs = SlugAllocator(repository.load_slugs())

        def create(values: Mapping[str, Any]) -> Project:
            project = repository.build(ProjectCreate(**values))
            project.slug = slugs.allocate(project.name)
            return project

        def update(project_id: str, values: Mapping[str, Any]) -> Project:
            return repository.update(project_id, ProjectUpdate(**values))

        projects: list[Project] = []
        for part in parts:
            values = part.model_dump(exclude={"jobs", "schedule"})
            row = existing.get(part.name)
            projects.append(self._writer.write("project", part.name, row, values, create, update))
        self._session.flush()
        return projects

    def _import_jobs(
        self, parts: Sequence[ProjectPart], projects: Sequence[Project], agents: Mapping[AgentName, Agent]
    ) -> None:
        repository = JobRepository(self._session, self._organization_id)
        jobs_by_project = self._load_jobs(projects)
        datasets = self._load_dataset_ids() if any(job.input_dataset for part in parts for job in part.jobs) else {}
        credentials = self._load_credential_ids() if any(job.cloud_credentials for p in parts for job in p.jobs) else {}
        for part, project in zip(parts, projects, strict=True):
            jobs = jobs_by_project.get(project.id, [])
            slugs = SlugAllocator(job.slug for job in jobs)
            existing: defaultdict[str, list[Job]] = defaultdict(list)
            for job in jobs:
                existing[job.name].append(job)

            def create(values: Mapping[str, Any], project_id: str = project.id, slugs: SlugAllocator = slugs) -> Job:
                job = repository.build(project_id, JobCreate(**values))
                job.slug = slugs.allocate(job.name)
                if job.scheduled_time is not None and is_past(job.scheduled_time):
                    job.handled_time = job.scheduled_time
                return job

            def update(job_id: str, changes: Mapping[str, Any], project_id: str = project.id) -> Job:
                time = changes.get("scheduled_time")
                if time is None or not is_past(time):
                    return repository.update(project_id, job_id, JobUpdate(**changes))
                row = repository.update(project_id, job_id, JobUpdate(**{**changes, "scheduled_time": None}))
                row.scheduled_time = row.handled_time = time
                return row

            for job in part.jobs:
                label = f"{project.name}/{job.name}"
                if job.agent is not None and job.agent not in agents:
                    raise reject(f"The agent of job '{label}' is not in it.", "projects")
                values = job.model_dump(exclude={"agent", "input_dataset", "cloud_credentials"})
                values["agent_id"] = agents[job.agent].id if job.agent else None
                values |= self._resolve_dataset(job.input_dataset, label, datasets)
                values |= self._resolve_credentials(job.cloud_credentials, label, credentials)
                row = existing[job.name].pop(0) if existing[job.name] else None
                self._writer.write("job", label, row, values, create, update)
        self._session.flush()

    def _import_schedules(self, parts: Sequence[ProjectPart], projects: Sequence[Project]) -> None:
        repository = ScheduleRepository(self._session, self._organization_id)
        query = select(Schedule.project_id).where(Schedule.organization_id == self._organization_id)
        timed = set(self._session.scalars(query))
        for part, project in zip(parts, projects, strict=True):
            if part.schedule is not None:
                values = part.schedule.model_dump(exclude={"job"})
                values["job_id"] = self._find_job(project, part.schedule.job)
                update = partial(_update_schedule, repository, project)
                row = repository.find(project)
                self._writer.write("schedule", project.name, row, values, partial(update, ""), update)
            if project.cron_schedule or project.id in timed:
                repository.plan(project)

    def _find_job(self, project: Project, name: str | None) -> str | None:
        query = select(Job.id).where(Job.project_id == project.id, Job.name == name).order_by(Job.id)
        return self._session.scalar(query.limit(1)) if name else None

    def _load_jobs(self, projects: Sequence[Project]) -> Mapping[str, Sequence[Job]]:
        """Return the jobs by project, oldest first.

        Several projects load the jobs of all: a list of thousands of ids exceeds the databases' limits.
        """
        jobs: defaultdict[str, list[Job]] = defaultdict(list)
        if not projects:
            return jobs
        query = select(Job).where(Job.organization_id == self._organization_id).order_by(Job.id)
        if len(projects) == 1:
            query = query.where(Job.project_id == projects[0].id)
        for job in self._session.scalars(query):
            jobs[job.project_id].append(job)
        return jobs

    def _load_dataset_ids(self) -> Mapping[str, str]:
        query = select(Dataset.schema_slug, Dataset.slug, Dataset.id)
        rows = self._session.execute(query.where(Dataset.organization_id == self._organization_id))
        return {f"{schema}.{table}": dataset_id for schema, table, dataset_id in rows}

    def _load_credential_ids(self) -> Mapping[tuple[str, str | None], Sequence[str]]:
        query = select(CloudCredential).where(CloudCredential.organization_id == self._organization_id)
        ids: defaultdict[tuple[str, str | None], list[str]] = defaultdict(list)
        for credential in self._session.scalars(query):
            ids[credential.provider, credential.name].append(credential.id)
        return ids

    def _resolve_dataset(self, table: str | None, job: str, dataset_ids: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the value of the job's input field; nothing, and a warning, when the table does not exist here."""
        if not table:
            return {"input_dataset_id": None}
        if table not in dataset_ids:
            self._warnings.append(f"job '{job}': its input, the table {table}, is not here.")
            return {}
        return {"input_dataset_id": dataset_ids[table]}

    def _resolve_credentials(
        self, names: Sequence[CredentialName], job: str, ids: Mapping[tuple[str, str | None], Sequence[str]]
    ) -> Mapping[str, Any]:
        """Return the value of the job's credentials field; nothing, and a warning, when a name is not unique here."""
        found: list[str] = []
        for name in names:
            matches = ids.get((name.provider, name.name), ())
            if len(matches) != 1:
                how_many = "no" if not matches else "more than one"
                credential = f"{name.provider} credential '{name.name}'"
                self._warnings.append(f"job '{job}': there is {how_many} {credential} here.")
                return {}
            found.append(matches[0])
        return {CREDENTIALS: found}


def _update_schedule(
    repository: ScheduleRepository, project: Project, _schedule_id: str, values: Mapping[str, Any]
) -> Schedule:
    return repository.update(project, ScheduleUpdate(**values))


def _get_value(row: Any, column: str) -> Any:
    return list(get_job_credential_ids(row)) if column == CREDENTIALS else getattr(row, column)


def _reject_record(kind: str, name: str, error: SpindleError) -> BadInput:
    return reject(f"{kind} '{name}': {error.sentence}", kind)
