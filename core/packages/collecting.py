"""Reads an organization's projects, with the agents and categories that they use, into the contents of a package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.agents.repository import AgentRepository
from core.categories.repository import CategoryRepository
from core.credentials.repository import named
from core.packages.contents import (
    AgentName,
    AgentPart,
    CategoryPart,
    Contents,
    CredentialName,
    ExtensionPart,
    JobPart,
    ProjectPart,
)
from core.packages.plugins import plugins_of
from core.projects.repository import ProjectRepository
from core.python_extensions.repository import PythonExtensionRepository
from core.tables import Agent, Category, CloudCredential, Dataset, Job, Project, PythonExtension


def collect(session: Session, organization_id: str, project_id: str | None = None) -> Contents:
    """All projects, agents and categories, or one project with what it uses; NotFound for an unknown one.

    The order is that of names, and of creation among equal names, so that equal configurations give equal contents.
    """
    return _Collector(session, organization_id).contents(project_id)


class _Collector:
    def __init__(self, session: Session, organization_id: str) -> None:
        self._session = session
        self._projects = ProjectRepository(session, organization_id)
        self._organization_id = organization_id
        self._categories = {row.id: row for row in CategoryRepository(session, organization_id).list()}
        agents = sorted(AgentRepository(session, organization_id).list(), key=lambda row: (*self._place(row), row.id))
        self._agents = {row.id: row for row in agents}

        self._extensions: dict[str, list[PythonExtension]] = {}
        for extension in sorted(
            PythonExtensionRepository(session, organization_id).list(), key=lambda row: row.folded_name
        ):
            self._extensions.setdefault(extension.agent_id, []).append(extension)

    def contents(self, project_id: str | None) -> Contents:
        projects = self._projects.list() if project_id is None else [self._projects.get(project_id)]
        jobs = self._jobs(project_id)
        used = {job.agent_id for each in jobs.values() for job in each}
        agents = [row for row in self._agents.values() if project_id is None or row.id in used]
        held = {row.category_id for row in agents}
        categories = [row for row in self._categories.values() if project_id is None or row.id in held]
        names = dict(zip((row.id for row in agents), _numbered(map(self._place, agents)), strict=True))
        return Contents(
            categories=tuple(CategoryPart.model_validate(row) for row in sorted(categories, key=_name)),
            agents=tuple(self._agent(row) for row in agents),
            projects=tuple(self._project(row, jobs.get(row.id, ()), names) for row in sorted(projects, key=_name)),
            plugins=plugins_of(row.pipeline_yaml for row in agents if row.pipeline_yaml),
        )

    def _jobs(self, project_id: str | None) -> Mapping[str, Sequence[Job]]:
        query = select(Job).where(Job.organization_id == self._organization_id)
        if project_id is not None:
            query = query.where(Job.project_id == project_id)
        jobs: dict[str, list[Job]] = {}
        for job in sorted(self._session.scalars(query), key=lambda row: (row.name, row.id)):
            jobs.setdefault(job.project_id, []).append(job)
        return jobs

    def _place(self, agent: Agent) -> tuple[str, str]:
        category = self._categories.get(agent.category_id or "")
        return category.name if category else "", agent.name

    def _agent(self, agent: Agent) -> AgentPart:
        computed = {"category", "extensions"}
        fields = {name: getattr(agent, name) for name in AgentPart.model_fields if name not in computed}
        extensions = tuple(ExtensionPart.model_validate(row) for row in self._extensions.get(agent.id, ()))
        return AgentPart(**fields, category=self._place(agent)[0] or None, extensions=extensions)

    def _project(self, project: Project, jobs: Iterable[Job], agents: Mapping[str, AgentName]) -> ProjectPart:
        fields = {name: getattr(project, name) for name in ProjectPart.model_fields if name != "jobs"}
        return ProjectPart(**fields, jobs=tuple(self._job(job, agents) for job in jobs))

    def _job(self, job: Job, agents: Mapping[str, AgentName]) -> JobPart:
        own = ("name", "description", "parameters", "scheduled_time", "enabled")
        return JobPart(
            **{name: getattr(job, name) for name in own},
            agent=agents.get(job.agent_id or ""),
            input_dataset=self._table(job.input_dataset_id),
            cloud_credentials=tuple(self._credentials(named(job))),
        )

    def _table(self, dataset_id: str | None) -> str | None:
        own = select(Dataset).where(Dataset.organization_id == self._organization_id)
        dataset = self._session.scalar(own.where(Dataset.id == dataset_id)) if dataset_id else None
        return f"{dataset.schema_slug}.{dataset.slug}" if dataset else None

    def _credentials(self, ids: Sequence[str]) -> Iterable[CredentialName]:
        """Those of the organization itself: global ones belong to the instance."""
        own = select(CloudCredential).where(CloudCredential.organization_id == self._organization_id)
        found = {row.id: row for row in self._session.scalars(own.where(CloudCredential.id.in_(ids)))} if ids else {}
        return [CredentialName(provider=found[one].provider, name=found[one].name) for one in ids if one in found]


def _numbered(places: Iterable[tuple[str, str]]) -> Iterable[AgentName]:
    seen: Counter[tuple[str, str]] = Counter()
    for place in places:
        seen[place] += 1
        yield AgentName(category=place[0] or None, name=place[1], number=seen[place])


def _name(row: Category | Project) -> str:
    return row.name
