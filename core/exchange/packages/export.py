"""Export of an organization's projects, with the agents and categories that they use, as a package's contents."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.agents.repository import AgentRepository
from core.definitions.categories.repository import CategoryRepository
from core.definitions.credentials.repository import get_job_credential_ids
from core.definitions.projects.repository import ProjectRepository
from core.definitions.python_extensions.repository import PythonExtensionRepository
from core.definitions.schedules.repository import ScheduleRepository
from core.exchange.packages.contents import (
    AgentName,
    AgentPart,
    CategoryPart,
    Contents,
    CredentialName,
    ExtensionPart,
    JobPart,
    ProjectPart,
    SchedulePart,
)
from core.tables import Agent, CloudCredential, Dataset, Job, Project, PythonExtension
from pipelines.errors import PipelineError
from pipelines.language import nodes as document
from pipelines.planning.stage import STAGES
from pipelines.registry import ENGINE


def export_contents(session: Session, organization_id: str, project_id: str | None = None) -> Contents:
    """Return all projects, agents and categories, or one project with what it uses. Raises NotFound.

    Rows are ordered by name, and by creation among equal names, so equal configurations give equal contents.
    """
    return _Exporter(session, organization_id).run(project_id)


class _Exporter:
    def __init__(self, session: Session, organization_id: str) -> None:
        self._session = session
        self._organization_id = organization_id
        self._categories = {row.id: row for row in CategoryRepository(session, organization_id).list()}

    def run(self, project_id: str | None) -> Contents:
        repository = ProjectRepository(self._session, self._organization_id)
        projects = repository.list() if project_id is None else [repository.get(project_id)]
        jobs = self._load_jobs(project_id)
        all_agents = AgentRepository(self._session, self._organization_id).list()
        agents = sorted(all_agents, key=lambda row: (self._category_name(row) or "", row.name, row.id))
        categories = sorted(self._categories.values(), key=lambda row: row.name)
        if project_id is not None:
            used = {job.agent_id for job in jobs.get(project_id, ())}
            agents = [row for row in agents if row.id in used]
            categories = [row for row in categories if row.id in {agent.category_id for agent in agents}]
        names = dict(zip((row.id for row in agents), self._number_agents(agents), strict=True))
        return Contents(
            categories=tuple(CategoryPart.model_validate(row) for row in categories),
            agents=self._export_agents(agents),
            projects=tuple(
                self._export_project(row, jobs.get(row.id, ()), names)
                for row in sorted(projects, key=lambda row: row.name)
            ),
            plugins=find_plugins(row.pipeline_yaml for row in agents if row.pipeline_yaml),
        )

    def _category_name(self, agent: Agent) -> str | None:
        category = self._categories.get(agent.category_id or "")
        return category.name if category else None

    def _number_agents(self, agents: Iterable[Agent]) -> Iterator[AgentName]:
        """Yield the name of each agent; agents of one category and name are numbered from 1."""
        counts: Counter[tuple[str | None, str]] = Counter()
        for agent in agents:
            category = self._category_name(agent)
            counts[category, agent.name] += 1
            yield AgentName(category=category, name=agent.name, number=counts[category, agent.name])

    def _load_jobs(self, project_id: str | None) -> Mapping[str, Sequence[Job]]:
        query = select(Job).where(Job.organization_id == self._organization_id)
        if project_id is not None:
            query = query.where(Job.project_id == project_id)
        jobs: defaultdict[str, list[Job]] = defaultdict(list)
        for job in sorted(self._session.scalars(query), key=lambda row: (row.name, row.id)):
            jobs[job.project_id].append(job)
        return jobs

    def _export_agents(self, agents: Iterable[Agent]) -> tuple[AgentPart, ...]:
        extensions: defaultdict[str, list[PythonExtension]] = defaultdict(list)
        rows = PythonExtensionRepository(self._session, self._organization_id).list()
        for row in sorted(rows, key=lambda row: row.folded_name):
            extensions[row.agent_id].append(row)
        own_fields = AgentPart.model_fields.keys() - {"category", "extensions"}
        return tuple(
            AgentPart(
                **{name: getattr(agent, name) for name in own_fields},
                category=self._category_name(agent),
                extensions=tuple(ExtensionPart.model_validate(row) for row in extensions[agent.id]),
            )
            for agent in agents
        )

    def _export_project(self, project: Project, jobs: Iterable[Job], agents: Mapping[str, AgentName]) -> ProjectPart:
        fields = {name: getattr(project, name) for name in ProjectPart.model_fields if name not in ("jobs", "schedule")}
        jobs = tuple(jobs)
        names = {job.id: job.name for job in jobs}
        return ProjectPart(
            **fields,
            schedule=self._export_schedule(project, names),
            jobs=tuple(self._export_job(job, agents) for job in jobs),
        )

    def _export_schedule(self, project: Project, job_names: Mapping[str, str]) -> SchedulePart | None:
        """Return the project's schedule unless it has the defaults; one of a job that was deleted is off."""
        schedule = ScheduleRepository(self._session, self._organization_id).get(project)
        fields = {name: getattr(schedule, name) for name in SchedulePart.model_fields if name != "job"}
        part = SchedulePart(**fields, job=job_names.get(schedule.job_id or ""))
        if schedule.job_id and part.job is None:
            part = part.model_copy(update={"enabled": False})
        return None if part == SchedulePart() else part

    def _export_job(self, job: Job, agents: Mapping[str, AgentName]) -> JobPart:
        return JobPart(
            **{name: getattr(job, name) for name in JobPart.model_fields if hasattr(job, name)},
            agent=agents.get(job.agent_id or ""),
            input_dataset=self._find_table(job.input_dataset_id),
            cloud_credentials=self._find_credentials(get_job_credential_ids(job)),
        )

    def _find_table(self, dataset_id: str | None) -> str | None:
        query = select(Dataset).where(Dataset.organization_id == self._organization_id, Dataset.id == dataset_id)
        dataset = self._session.scalar(query) if dataset_id else None
        return f"{dataset.schema_slug}.{dataset.slug}" if dataset else None

    def _find_credentials(self, ids: Sequence[str]) -> tuple[CredentialName, ...]:
        """Return the names of the organization's own credentials: global ones belong to the instance."""
        if not ids:
            return ()
        query = select(CloudCredential).where(CloudCredential.organization_id == self._organization_id)
        rows = {row.id: row for row in self._session.scalars(query.where(CloudCredential.id.in_(ids)))}
        return tuple(CredentialName(provider=rows[id].provider, name=rows[id].name) for id in ids if id in rows)


def find_plugins(pipelines: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the distributions, besides the engine, whose stages these pipelines use."""
    plugins = {plugin for text in pipelines for plugin in _find_stage_owners(text)}
    return tuple(sorted(plugins - {ENGINE}))


def _find_stage_owners(pipeline: str) -> Iterator[str]:
    try:
        root = document.parse(pipeline).to_plain()
    except PipelineError:
        return  # stored by an earlier version with other rules
    stages = root.get("pipeline") if isinstance(root, dict) else None
    for item in stages if isinstance(stages, list) else ():
        name = str(item.get("stage")) if isinstance(item, dict) else ""
        stage = STAGES.get(name.partition(":")[0])
        if stage is not None:
            yield stage.plugin
