"""Applying a declaration to an organization: records are matched by name, then changed, created or deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import yaml
from pydantic.alias_generators import to_camel
from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.agents.models import AgentCreate, AgentUpdate
from core.definitions.agents.plan_outline import PlanOutline
from core.definitions.agents.repository import NO_PIPELINES, AgentRepository
from core.definitions.categories.models import CategoryCreate, CategoryUpdate
from core.definitions.categories.repository import CategoryRepository
from core.definitions.credentials.repository import CredentialRepository, get_job_credential_ids
from core.definitions.identity.api_keys import Identity
from core.definitions.jobs.models import JobCreate, JobUpdate
from core.definitions.jobs.repository import JobRepository
from core.definitions.projects.models import ProjectCreate, ProjectUpdate
from core.definitions.projects.repository import ProjectRepository
from core.definitions.python_extensions.models import ExtensionCreate, ExtensionUpdate
from core.definitions.python_extensions.repository import PythonExtensionRepository
from core.definitions.schedules.models import ScheduleUpdate
from core.definitions.schedules.repository import ScheduleRepository
from core.errors import BadInput, Conflict, Detail, SpindleError
from core.exchange.declarations.models import (
    KINDS,
    AgentDeclaration,
    Declaration,
    JobDeclaration,
    Key,
    ProjectDeclaration,
    RecordDeclaration,
    ScheduleDeclaration,
    format_name,
)
from core.infra.record_writer import RecordWriter
from core.infra.repository import lock_organization
from core.infra.validation import format_optional_time
from core.lifecycle.executions.transitions import end_executions
from core.tables import Agent, Dataset, Job, Project
from pipelines.language.names import normalize, suggest

_NAMES = {"pipeline_yaml": "pipeline", "source": "function"}  # of columns whose names in JSON differ
_REFERENCES = {"agent_id": "agent", "input_dataset_id": "inputDataset"}
_CREDENTIALS = "cloud_credential_ids"
MAX_CHANGES = 1_000  # in one transaction, during which nobody else can write to SQLite


class Applier:
    """One application of a declaration, in the caller's transaction. Nothing is deleted unless `prune` is set."""

    def __init__(
        self, session: Session, caller: Identity, valid_pipelines: Mapping[str, PlanOutline] = NO_PIPELINES
    ) -> None:
        owner, viewer = caller.organization_id, caller.viewer_key_id
        lock_organization(session, owner)
        self._session = session
        self._caller = caller
        self._categories = CategoryRepository(session, owner, viewer)
        self._agents = AgentRepository(session, owner, viewer_key_id=viewer, valid_pipelines=valid_pipelines)
        self._extensions = PythonExtensionRepository(session, owner, viewer_key_id=viewer)
        self._projects = ProjectRepository(session, owner)
        self._jobs = JobRepository(session, owner, viewer_key_id=viewer)
        self._schedules = ScheduleRepository(session, owner)
        self._writer = RecordWriter(session, _reject, _get_value, self._describe)
        self._rows: defaultdict[Key, list[Any]] = defaultdict(list)
        self._ids: dict[str, Mapping[str, Sequence[str]]] = {}
        self._agents_by_name: dict[str, list[Key]] = {}

    def apply(self, declaration: Declaration, prune: bool) -> RecordWriter:
        """Write the declared records and return the writer with its changes. Raises BadInput and Conflict."""
        self._read_rows()
        declared = set(declaration.iter_keys())
        surplus = [key for key in self._rows if prune and key not in declared and declaration.owns(key)]
        for key in (*declared, *surplus):
            self._check_unique(key)
        for category in declaration.categories or ():
            self._write(("category", category.name), _dump(category), self._create_category, self._update_category)
        for agent in declaration.agents or ():
            self._write_agent(agent)
        for project in declaration.projects or ():
            self._write_project(project)
        for key in sorted(surplus, key=lambda key: KINDS.index(key[0]), reverse=True):
            self._delete(key)
        return self._writer

    def list_changed_agents(self) -> Iterator[tuple[str, Agent, Mapping[str, str]]]:
        """Iterate over the agents that were written, with their names and row transforms."""
        touched = {each.name for each in self._writer.changes if each.kind == "agent"}
        touched |= {each.name.rpartition("/")[0] for each in self._writer.changes if each.kind == "extension"}
        for key, rows in self._rows.items():
            if key[0] == "agent" and rows and format_name(key) in touched:
                self._session.refresh(rows[0])
                yield format_name(key), rows[0], self._agents.load_row_transforms(rows[0])

    def _read_rows(self) -> None:
        """Read all records that a declaration can name."""
        categories = {row.id: row.name for row in self._categories.list()}
        for row in self._categories.list():
            self._rows["category", row.name].append(row)
        agents = {row.id: (categories.get(row.category_id or "", ""), row.name) for row in self._agents.list()}
        for row in self._agents.list():
            self._rows["agent", *agents[row.id]].append(row)
        for row in self._extensions.list():
            self._rows["extension", *agents[row.agent_id], row.name].append(row)
        projects = {row.id: row.name for row in self._projects.list()}
        for row in self._projects.list():
            self._rows["project", row.name].append(row)
        query = select(Job).where(Job.organization_id == self._caller.organization_id).order_by(Job.id)
        for row in self._session.scalars(query):
            self._rows["job", projects[row.project_id], row.name].append(row)

    def _check_unique(self, key: Key) -> None:
        if len(self._rows.get(key, ())) > 1:
            record = f"{key[0]} '{format_name(key)}'"
            raise Conflict(f"The server has more than one {record}. Rename or delete all but one.", code="name-taken")

    def _write(self, key: Key, values: Mapping[str, Any], create: Any, update: Any) -> Any:
        rows = self._rows[key]
        row = self._writer.write(key[0], format_name(key), rows[0] if rows else None, values, create, update)
        rows[:] = [row]
        self._check_changes()
        return row

    def _check_changes(self) -> None:
        if len(self._writer.changes) > MAX_CHANGES:
            sentence = f"The declaration changes more than {MAX_CHANGES:,} records. Apply it in parts."
            raise BadInput(sentence, code="too-large")

    def _create_category(self, values: Mapping[str, Any]) -> Any:
        return self._categories.create(CategoryCreate(**values), created_by_key_id=self._caller.key_id)

    def _update_category(self, category_id: str, values: Mapping[str, Any]) -> Any:
        return self._categories.update(category_id, CategoryUpdate(**values))

    def _create_agent(self, values: Mapping[str, Any]) -> Any:
        return self._agents.create(AgentCreate(**values))

    def _update_agent(self, agent_id: str, values: Mapping[str, Any]) -> Any:
        return self._agents.update(agent_id, AgentUpdate(**values))

    def _write_agent(self, declared: AgentDeclaration) -> None:
        names = declared.category or "", declared.name
        key = ("agent", *names)
        values = _dump(declared, "category", "extensions", "pipeline", "pipeline_file")
        if declared.pipeline is not None:
            values["pipeline_yaml"] = get_pipeline_text(declared)
        if declared.category is not None:
            found = self._rows.get(("category", declared.category))
            if not found:
                known = (each[1] for each in self._rows if each[0] == "category" and self._rows[each])
                raise _reject_reference(key, "category", declared.category, known)
            values["category_id"] = found[0].id
        agent = self._write(key, values, self._create_agent, self._update_agent)
        if not declared.extensions:
            return
        existing = {normalize(each[-1]): each for each in list(self._rows) if each[:-1] == ("extension", *names)}
        for extension in declared.extensions:

            def create(values: Mapping[str, Any], agent_id: str = agent.id) -> Any:
                return self._extensions.create(agent_id, ExtensionCreate(**{"source": "", **values}))

            def update(extension_id: str, values: Mapping[str, Any]) -> Any:
                return self._extensions.update(extension_id, ExtensionUpdate(**values))

            own = existing.get(normalize(extension.name), ("extension", *names, extension.name))
            source = {} if extension.function is None else {"source": extension.function}
            fields = {"name": extension.name, **source}
            self._write(own, fields, create, update)

    def _write_project(self, declared: ProjectDeclaration) -> None:
        project = self._write(
            ("project", declared.name), _dump(declared, "jobs", "schedule"), self._create_project, self._update_project
        )
        for job in declared.jobs or ():
            key = ("job", declared.name, job.name)

            def create(values: Mapping[str, Any]) -> Any:
                return self._jobs.create(project.id, JobCreate(**values))

            def update(job_id: str, changes: Mapping[str, Any]) -> Any:
                return self._jobs.update(project.id, job_id, JobUpdate(**changes))

            self._write(key, self._get_job_values(key, job), create, update)
        if declared.schedule is not None:
            self._write_schedule(project, declared.schedule)

    def _create_project(self, values: Mapping[str, Any]) -> Any:
        return self._projects.create(ProjectCreate(**values))

    def _update_project(self, project_id: str, values: Mapping[str, Any]) -> Any:
        return self._projects.update(project_id, ProjectUpdate(**values))

    def _write_schedule(self, project: Project, declared: ScheduleDeclaration) -> None:
        values = declared.model_dump(exclude_none=True, exclude={"job"})
        if declared.job is not None:
            key = ("job", project.name, declared.job)
            if not self._rows.get(key):
                known = (each[2] for each in self._rows if each[:2] == key[:2] and self._rows[each])
                raise _reject_reference(("project", project.name), "job", declared.job, known)
            values["job_id"] = self._rows[key][0].id

        def update(_schedule_id: str, changes: Mapping[str, Any]) -> Any:
            return self._schedules.update(project, ScheduleUpdate(**changes))

        row = self._schedules.find(project)
        self._writer.write("schedule", project.name, row, values, partial(update, ""), update)
        self._check_changes()

    def _get_job_values(self, key: Key, declared: JobDeclaration) -> dict[str, Any]:
        values = _dump(declared, "agent", "input_dataset", "cloud_credentials")
        if declared.agent is not None:
            values["agent_id"] = self._find_agent(key, declared.agent)
        if declared.input_dataset is not None:
            values["input_dataset_id"] = self._find_id(key, "inputDataset", declared.input_dataset)
        if declared.cloud_credentials is not None:
            values[_CREDENTIALS] = [self._find_id(key, "cloudCredential", each) for each in declared.cloud_credentials]
        return values

    def _find_agent(self, key: Key, name: str) -> str:
        """Return the id of an agent by its name, with its category's unless the name alone is unique."""
        known = self._index_agents()
        found = [each for each in known.get(name, ()) if format_name(each) == name] or known.get(name, ())
        if not found:
            raise _reject_reference(key, "agent", name, known)
        if len(found) > 1:
            raise BadInput(f"job '{format_name(key)}': there is more than one agent '{name}'.", path="agent")
        self._check_unique(found[0])
        return self._rows[found[0]][0].id

    def _index_agents(self) -> Mapping[str, Sequence[Key]]:
        """Return the agents by `category/name` and by name; all of them are written before the first job."""
        if not self._agents_by_name:
            for key in [each for each, rows in self._rows.items() if each[0] == "agent" and rows]:
                for name in dict.fromkeys((format_name(key), key[2])):
                    self._agents_by_name.setdefault(name, []).append(key)
        return self._agents_by_name

    def _find_id(self, key: Key, kind: str, name: str) -> str:
        known = self._load_ids(kind)
        found = known.get(name, ())
        if not found:
            raise _reject_reference(key, kind, name, known)
        if len(found) > 1:
            raise BadInput(f"job '{format_name(key)}': there is more than one {kind} '{name}'.", path=kind)
        return found[0]

    def _load_ids(self, kind: str) -> Mapping[str, Sequence[str]]:
        """Return the ids of tables by `schema.table`, or those of credentials by `PROVIDER/name`."""
        if kind not in self._ids:
            ids: defaultdict[str, list[str]] = defaultdict(list)
            owner = self._caller.organization_id
            if kind == "inputDataset":
                for row in self._session.scalars(select(Dataset).where(Dataset.organization_id == owner)):
                    ids[f"{row.schema_slug}.{row.slug}"].append(row.id)
            else:
                for row in CredentialRepository(self._session, owner).list():
                    ids[f"{row.provider}/{row.name}"].append(row.id)
            self._ids[kind] = ids
        return self._ids[kind]

    def _delete(self, key: Key) -> None:
        row = self._rows[key][0]
        self._check_changes()
        if key[0] == "job":
            self._jobs.lock(row)
            self._writer.delete(
                key[0], format_name(key), lambda: self._jobs.delete(row.project_id, row.id, end_executions)
            )
        elif key[0] == "project":
            self._writer.delete(key[0], format_name(key), lambda: self._projects.delete(row.id, end_executions))
        else:
            repositories = {"category": self._categories, "agent": self._agents, "extension": self._extensions}
            repository: Any = repositories[key[0]]
            self._writer.delete(key[0], format_name(key), lambda: repository.delete(row.id))
        self._rows[key].clear()

    def _describe(self, column: str, value: Any) -> tuple[str, Any]:
        """Return a column's name and value in the terms of a declaration: references by name."""
        if column == _CREDENTIALS:
            return "cloudCredentials", [self._find_name("cloudCredential", each) for each in value]
        if column == "agent_id":
            agents = {rows[0].id: key for key, rows in self._rows.items() if key[0] == "agent" and rows}
            return "agent", format_name(agents[value]) if value in agents else None
        if column == "input_dataset_id":
            return "inputDataset", self._find_name("inputDataset", value)
        if column == "job_id":
            jobs = {rows[0].id: key[2] for key, rows in self._rows.items() if key[0] == "job" and rows}
            return "job", jobs.get(value)
        if column == "scheduled_time":
            return "scheduledTime", format_optional_time(value)
        return _NAMES.get(column, to_camel(column)), value

    def _find_name(self, kind: str, record_id: str | None) -> str | None:
        return next((name for name, ids in self._load_ids(kind).items() if record_id in ids), None)


def get_pipeline_text(declared: AgentDeclaration) -> str | None:
    """Return the pipeline as text: a map becomes YAML."""
    if isinstance(declared.pipeline, dict):
        return yaml.safe_dump(declared.pipeline, sort_keys=False, allow_unicode=True)
    return declared.pipeline


def _dump(declared: RecordDeclaration, *excluded: str) -> dict[str, Any]:
    """Return the declared columns."""
    values = declared.model_dump(exclude_none=True, exclude=set(excluded))
    if "visibility" in values:
        values["visibility"] = values["visibility"].upper()
    return values


def _get_value(row: Any, column: str) -> Any:
    if column == _CREDENTIALS:
        return list(get_job_credential_ids(row))
    if column == "code" and row.code is None:
        return row.pipeline_yaml
    return getattr(row, column)


def _reject(kind: str, name: str, error: SpindleError) -> SpindleError:
    return type(error)(f"{kind} '{name}': {error.sentence}", error.details)


def _reject_reference(key: Key, kind: str, name: str, known: Iterable[str]) -> BadInput:
    similar = suggest(name, dict.fromkeys(known))
    hint = f" Did you mean {' or '.join(similar)}?" if similar else ""
    sentence = f"{key[0]} '{format_name(key)}': there is no {kind} '{name}'.{hint}"
    return BadInput(sentence, [Detail(kind, sentence, "not-found")])
