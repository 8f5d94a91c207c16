"""Takes the contents of a package into an organization, matched by name: what is there is changed, the rest is made."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.agents.repository import AgentRepository, check_pipeline
from core.categories.repository import CategoryRepository
from core.credentials.repository import named
from core.errors import BadInput
from core.infra.repository import lock_organization, validate_fields
from core.infra.slugs import Slugs
from core.infra.validation import storable
from core.jobs.repository import JobRepository
from core.packages.archive import bad
from core.packages.contents import AgentName, AgentPart, CategoryPart, Contents, ExtensionPart, JobPart, ProjectPart
from core.projects.repository import ProjectRepository
from core.python_extensions.repository import PythonExtensionRepository
from core.tables import Agent, Category, CloudCredential, Dataset, Job, Project, PythonExtension
from pipelines.language.names import fold

CREDENTIALS = "cloud_credential_ids"


@dataclass(frozen=True, slots=True)
class Touched:
    """One thing that an import made or changed: `job`, `Shop/Books`."""

    kind: str
    name: str


@dataclass(slots=True)
class Report:
    """What an import did, and what of the package has no counterpart here."""

    created: list[Touched] = field(default_factory=list[Touched])
    changed: list[Touched] = field(default_factory=list[Touched])
    unchanged: int = 0
    warnings: list[str] = field(default_factory=list[str])


def apply(
    session: Session,
    organization_id: str,
    contents: Contents,
    *,
    key_id: str | None = None,
    sound: Collection[str] = (),
) -> Report:
    """All or nothing, in the caller's transaction: raises BadInput that names what cannot be taken in.

    `key_id` becomes the owner of private categories; `sound` is what `sound_pipelines` found. Nothing is deleted.
    """
    lock_organization(session, organization_id)
    return _Import(session, organization_id, key_id, sound).run(contents)


def sound_pipelines(contents: Contents) -> Collection[str]:
    """The pipelines that are right: checking takes long, and in the transaction other writers would wait for it."""
    texts = {agent.pipeline_yaml for agent in contents.agents if agent.pipeline_yaml is not None}
    return {text for text in texts if storable(text) and _is_sound(text)}


def of_project(contents: Contents, name: str) -> Contents:
    """The project of this name with the agents and categories that it uses; BadInput when there is none."""
    projects = tuple(project for project in contents.projects if project.name == name)
    if not projects:
        raise bad(f"It has no project '{name}'.", "projects")
    used = {(job.agent.category, job.agent.name) for job in projects[0].jobs if job.agent}
    agents = tuple(agent for agent in contents.agents if (agent.category, agent.name) in used)
    held = {agent.category for agent in agents}
    categories = tuple(category for category in contents.categories if category.name in held)
    return contents.model_copy(update={"projects": projects, "agents": agents, "categories": categories})


class _Import:
    """One import. What is new is stored a kind at a time: row by row, thousands took most of a minute."""

    def __init__(self, session: Session, organization_id: str, key_id: str | None, sound: Collection[str]) -> None:
        self._session = session
        self._organization_id = organization_id
        self._key_id = key_id
        self._report = Report()
        self._categories = CategoryRepository(session, organization_id)
        self._agents = AgentRepository(session, organization_id, sound)
        self._extensions = PythonExtensionRepository(session, organization_id)
        self._projects = ProjectRepository(session, organization_id)
        self._jobs = JobRepository(session, organization_id)

    def run(self, contents: Contents) -> Report:
        categories = {row.name: row for row in self._categories.list()}
        for part in contents.categories:
            categories[part.name] = self._category(part, categories.get(part.name))
        self._session.flush()
        agents = self._all_agents(contents.agents, categories)
        projects = self._all_projects(contents.projects)
        self._all_jobs(contents.projects, projects, agents)
        return self._report

    def _category(self, part: CategoryPart, row: Category | None) -> Category:
        def create(values: Mapping[str, Any]) -> Category:
            return self._categories.new(values, created_by_key_id=self._key_id)

        return self._put("category", part.name, row, part.model_dump(), create, self._categories.update)

    def _all_agents(self, parts: Sequence[AgentPart], categories: Mapping[str, Category]) -> Mapping[AgentName, Agent]:
        """The agents under the names that jobs use: the nth of a name is the nth that is here."""
        names = {row.id: row.name for row in categories.values()}
        here: dict[tuple[str | None, str], list[Agent]] = {}
        for row in self._agents.list():
            here.setdefault((names.get(row.category_id or ""), row.name), []).append(row)
        agents: dict[AgentName, Agent] = {}
        seen: Counter[tuple[str | None, str]] = Counter()
        for part in parts:
            place = (part.category, part.name)
            seen[place] += 1
            known = here.get(place, [])
            name = AgentName(category=part.category, name=part.name, number=seen[place])
            agents[name] = self._agent(part, known.pop(0) if known else None, categories)
        self._session.flush()
        self._all_extensions(zip(parts, agents.values(), strict=True))
        return agents

    def _agent(self, part: AgentPart, row: Agent | None, categories: Mapping[str, Category]) -> Agent:
        shown = _shown(part)
        if part.category is not None and part.category not in categories:
            raise bad(f"The category of agent '{shown}' is not in it.", "agents")
        category = categories[part.category].id if part.category else None
        values = {**part.model_dump(exclude={"category", "extensions"}), "category_id": category}
        return self._put("agent", shown, row, values, self._agents.new, self._agents.update)

    def _all_extensions(self, agents: Iterable[tuple[AgentPart, Agent]]) -> None:
        here = {(each.agent_id, each.folded_name): each for each in self._extensions.list()}
        for part, agent in agents:
            for extension in part.extensions:
                known = here.get((agent.id, fold(extension.name)))
                self._extension(agent, extension, known, f"{_shown(part)}/{extension.name}")

    def _extension(self, agent: Agent, part: ExtensionPart, row: PythonExtension | None, shown: str) -> None:
        def create(values: Mapping[str, Any]) -> PythonExtension:
            return self._extensions.create(agent.id, **values)

        values = part.model_dump() if row is None else {"source": part.source}
        self._put("python extension", shown, row, values, create, self._extensions.update)

    def _all_projects(self, parts: Sequence[ProjectPart]) -> Sequence[Project]:
        here = {row.name: row for row in self._projects.list()}
        slugs = Slugs(self._projects.load_slugs())

        def create(values: Mapping[str, Any]) -> Project:
            project = self._projects.build(values)
            project.slug = slugs.give(project.name)
            return project

        def put(part: ProjectPart) -> Project:
            values = part.model_dump(exclude={"jobs"})
            return self._put("project", part.name, here.get(part.name), values, create, self._projects.update)

        projects = [put(part) for part in parts]
        self._session.flush()
        return projects

    def _all_jobs(
        self, parts: Sequence[ProjectPart], projects: Sequence[Project], agents: Mapping[AgentName, Agent]
    ) -> None:
        here = self._jobs_here(projects)
        for part, project in zip(parts, projects, strict=True):
            jobs = here.get(project.id, [])
            slugs, known = Slugs(job.slug for job in jobs), _by_name(jobs)
            for job in part.jobs:
                same = known.get(job.name)
                self._job(project, job, same.pop(0) if same else None, agents, slugs)
        self._session.flush()

    def _jobs_here(self, projects: Sequence[Project]) -> Mapping[str, list[Job]]:
        """The jobs by project, oldest first: those of one project alone, or all, for ids beyond number fit nowhere."""
        if not projects:
            return {}
        query = select(Job).where(Job.organization_id == self._organization_id).order_by(Job.id)
        if len(projects) == 1:
            query = query.where(Job.project_id == projects[0].id)
        jobs: defaultdict[str, list[Job]] = defaultdict(list)
        for job in self._session.scalars(query):
            jobs[job.project_id].append(job)
        return jobs

    def _job(
        self, project: Project, part: JobPart, row: Job | None, agents: Mapping[AgentName, Agent], slugs: Slugs
    ) -> None:
        def create(values: Mapping[str, Any]) -> Job:
            job = self._jobs.new(project.id, validate_fields(values, JobRepository.fields))
            job.slug = slugs.give(job.name)
            return job

        shown = f"{project.name}/{part.name}"
        if part.agent is not None and part.agent not in agents:
            raise bad(f"The agent of job '{shown}' is not in it.", "projects")
        values = {
            **part.model_dump(exclude={"agent", "input_dataset", "cloud_credentials"}),
            "agent_id": agents[part.agent].id if part.agent else None,
            **self._dataset(part, shown),
            **self._credentials(part, shown),
        }
        self._put("job", shown, row, values, create, partial(self._jobs.update, project.id))

    def _dataset(self, part: JobPart, job: str) -> Mapping[str, Any]:
        if not part.input_dataset:
            return {"input_dataset_id": None}
        if part.input_dataset not in self._dataset_ids:
            self._report.warnings.append(f"job '{job}': its input, the table {part.input_dataset}, is not here.")
            return {}
        return {"input_dataset_id": self._dataset_ids[part.input_dataset]}

    @cached_property
    def _dataset_ids(self) -> Mapping[str, str]:
        own = select(Dataset.schema_slug, Dataset.slug, Dataset.id)
        tables = self._session.execute(own.where(Dataset.organization_id == self._organization_id))
        return {f"{schema}.{table}": dataset_id for schema, table, dataset_id in tables}

    def _credentials(self, part: JobPart, job: str) -> Mapping[str, Any]:
        ids: list[str] = []
        for name in part.cloud_credentials:
            found = self._credential_ids.get((name.provider, name.name), [])
            if len(found) != 1:
                how_many = "no" if not found else "more than one"
                wanted = f"{name.provider} credential '{name.name}'"
                self._report.warnings.append(f"job '{job}': there is {how_many} {wanted} here.")
                return {}
            ids.append(found[0])
        return {CREDENTIALS: ids}

    @cached_property
    def _credential_ids(self) -> Mapping[tuple[str, str | None], list[str]]:
        ids: defaultdict[tuple[str, str | None], list[str]] = defaultdict(list)
        own = select(CloudCredential).where(CloudCredential.organization_id == self._organization_id)
        for credential in self._session.scalars(own):
            ids[credential.provider, credential.name].append(credential.id)
        return ids

    def _put(
        self,
        kind: str,
        name: str,
        row: Any,
        values: Mapping[str, Any],
        create: Callable[[Mapping[str, Any]], Any],
        update: Callable[[str, Mapping[str, Any]], Any],
    ) -> Any:
        """Makes the row, or changes what differs of it; an update leaves out what is null, so that is set here.

        What is made is stored with the next flush.
        """
        try:
            if row is None:
                self._report.created.append(Touched(kind, name))
                made = create(values)
                self._session.add(made)
                return made
            differing = {field: value for field, value in values.items() if value != _value(row, field)}
            if not differing:
                self._report.unchanged += 1
                return row
            self._report.changed.append(Touched(kind, name))
            changed = update(row.id, differing)
        except BadInput as error:
            raise bad(f"{kind} '{name}': {error.sentence}", kind) from error
        for field_name in (name for name, value in differing.items() if value is None):
            setattr(changed, field_name, None)
        self._session.flush()
        return changed


def _shown(part: AgentPart) -> str:
    return f"{part.category}/{part.name}" if part.category else part.name


def _by_name(jobs: Iterable[Job]) -> Mapping[str, list[Job]]:
    names: defaultdict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        names[job.name].append(job)
    return names


def _is_sound(pipeline: str) -> bool:
    try:
        check_pipeline(pipeline)
    except BadInput:  # told with the agent's name when it is written
        return False
    return True


def _value(row: Any, field_name: str) -> Any:
    return list(named(row)) if field_name == CREDENTIALS else getattr(row, field_name)
