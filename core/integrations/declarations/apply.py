"""Applying a declaration to an organization: records are matched by name, then changed, created or deleted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from pydantic.alias_generators import to_camel
from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.agents.models import AgentCreate, AgentUpdate
from core.definitions.agents.repository import NO_TEXTS, AgentRepository
from core.definitions.agents.texts import CheckedTexts
from core.definitions.agents.validation import looks_like_pipeline
from core.definitions.categories.models import CategoryCreate, CategoryUpdate
from core.definitions.categories.repository import CategoryRepository
from core.definitions.credentials.repository import get_job_credential_ids
from core.definitions.identity.api_keys import Identity
from core.definitions.jobs.models import JobCreate, JobUpdate
from core.definitions.jobs.partitions import dump_partitions
from core.definitions.jobs.repository import JobRepository
from core.definitions.projects.models import ProjectCreate, ProjectUpdate
from core.definitions.projects.repository import ProjectRepository
from core.definitions.python_extensions.models import ExtensionCreate, ExtensionUpdate
from core.definitions.python_extensions.repository import PythonExtensionRepository
from core.definitions.schedules.models import ScheduleCreate, ScheduleUpdate
from core.definitions.schedules.repository import ScheduleRepository
from core.definitions.schedules.times import check_scheduled_time, is_past
from core.errors import BadInput, Conflict, Detail
from core.infra.encryption import KeyRing
from core.infra.repository import lock_organization
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.infra.slugs import SlugAllocator
from core.infra.validation import format_time
from core.integrations.declarations.models import (
    AgentDeclaration,
    CategoryDeclaration,
    Declaration,
    DeclaredFields,
    ExtensionDeclaration,
    JobDeclaration,
    NotificationDeclaration,
    ProjectDeclaration,
    ScheduleDeclaration,
    WebhookDeclaration,
    format_name,
)
from core.integrations.declarations.references import CREDENTIAL, DATASET, References
from core.integrations.notifications.models import RuleCreate, RuleUpdate
from core.integrations.notifications.repository import RuleRepository
from core.integrations.webhooks.models import WebhookCreate, WebhookUpdate
from core.integrations.webhooks.repository import WebhookRepository
from core.lifecycle.executions.transitions import end_executions
from core.tables import (
    Agent,
    Category,
    Job,
    NotificationRule,
    Owned,
    Project,
    PythonExtension,
    Schedule,
    Webhook,
    new_id,
)
from pipelines.language.names import normalize, suggest
from pipelines.language.nodes import write_yaml

Columns = dict[str, Any]
Key = tuple[str, str, str]  # kind, id of the record that contains it or "", name
KINDS = (
    "category",
    "agent",
    "extension",
    "project",
    "job",
    "schedule",
    "webhook",
    "notification",
)  # in the order of their references
NAMES = {  # of columns, in a declaration, where they differ
    "agent_id": "agent",
    "cloud_credential_id": "to",
    "cloud_credential_ids": "cloudCredentials",
    "input_dataset_id": "inputDataset",
    "job_id": "job",
    "pipeline_yaml": "pipeline",
    "source": "function",
}
MAX_CHANGES = 1_000  # in one transaction, during which nobody else can write to SQLite


class Action(StrEnum):
    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One changed field, by its name in a declaration."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class RecordChange:
    """One record that was created, changed or deleted: the job `Shop/Books`."""

    action: Action
    kind: str
    name: str
    fields: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True)
class MissingInput:
    """The input of a written job that was no table yet; `change` is the position of the job's change, if it has one."""

    job: Job
    name: str
    table: str
    change: int | None


class Applier:
    """One application of a declaration, in the caller's transaction. Nothing is deleted unless `prune` is set.

    A `complete` declaration, as packages have it, sets all fields of its records, also to null. The nth of its records
    with one name matches the nth stored one, and references to tables and credentials that are not here are warnings.
    """

    def __init__(
        self,
        session: Session,
        caller: Identity,
        settings: Settings,
        texts: CheckedTexts = NO_TEXTS,
        *,
        complete: bool = False,
    ) -> None:
        owner, viewer = caller.organization_id, caller.viewer_key_id
        lock_organization(session, owner)
        self.changes: list[RecordChange] = []
        self.changed_job_ids: list[str] = []
        self.unchanged = 0
        self.warnings: list[str] = []
        self._session = session
        self._caller = caller
        self._complete = complete
        self._categories = CategoryRepository(session, owner, viewer)
        self._agents = AgentRepository(session, owner, viewer_key_id=viewer, texts=texts)
        self._extensions = PythonExtensionRepository(session, owner, viewer_key_id=viewer)
        self._projects = ProjectRepository(session, owner)
        self._jobs = JobRepository(session, owner, viewer_key_id=viewer)
        self._schedules = ScheduleRepository(session, owner)
        self._webhooks = WebhookRepository(session, owner)
        self._rules = RuleRepository(session, owner)
        self._settings = settings
        self._references = References(session, owner)
        self._rows: defaultdict[Key, list[Any]] = defaultdict(list)
        self._matched: Counter[Key] = Counter()  # how many of the rows the declaration has
        self._names: dict[str, str] = {}  # by id, as changes show them
        self._slugs: dict[str, SlugAllocator] = {}
        self._changed_agents: dict[str, Agent] = {}
        self._agents_by_name: defaultdict[str, list[Agent]] = defaultdict(list)
        self._missing_inputs: list[MissingInput] = []
        self._dependent: list[Job] = []

    def apply(self, declaration: Declaration, *, prune: bool = False) -> None:
        """Write the declared records. Raises BadInput and Conflict."""
        self._load_rows(declaration)
        for category in declaration.categories or ():
            self._write_category(category)
        self._session.flush()  # a kind at a time: inserting thousands row by row took most of a minute
        agents = [(agent, self._write_agent(agent)) for agent in declaration.agents or ()]
        self._session.flush()
        for name, (agent, row) in zip(declaration.agent_names, agents, strict=True):
            for extension in agent.extensions or ():
                self._write_extension(row, name, extension)
            if self._complete:
                self._agents_by_name[name].append(row)
        if not self._complete:
            self._index_agents()
        projects = [(project, self._write_project(project)) for project in declaration.projects or ()]
        self._session.flush()
        for project, row in projects:
            self._match_slugs(row, project.jobs or ())
            for job in project.jobs or ():
                self._write_job(row, job)
        self._session.flush()
        for job in self._dependent:
            try:
                self._jobs.check_dependencies(job)
            except BadInput as error:
                if not self._complete:
                    raise
                self.warnings.append(error.sentence)
        for missing in self._missing_inputs:
            self._create_input(missing)
        for project, row in projects:
            for schedule in (*([project.schedule] if project.schedule else ()), *(project.schedules or ())):
                self._write_schedule(row, schedule)
            for webhook in project.webhooks or ():
                self._write_webhook(row, webhook)
            for rule in project.notifications or ():
                self._write_rule(row, rule)
            if row.cron_schedule or self._rows["schedule", row.id, ""]:
                self._schedules.plan(row)
        order = {(key[0], format_name(key)): number for number, key in enumerate(declaration.iter_keys())}
        self.changes.sort(key=lambda change: order[change.kind, change.name])
        if prune:
            inner = {("extension", row.id) for agent, row in agents if agent.extensions is not None}
            inner |= {("job", row.id) for project, row in projects if project.jobs is not None}
            inner |= {("webhook", row.id) for project, row in projects if project.webhooks is not None}
            inner |= {("notification", row.id) for project, row in projects if project.notifications is not None}
            inner |= {("schedule", row.id) for project, row in projects if project.schedules is not None}
            self._prune(declaration, inner)

    def list_changed_agents(self) -> Iterator[tuple[str, Agent, Mapping[str, str]]]:
        """Iterate over the agents that were written, with their names and row transforms."""
        for row in self._changed_agents.values():
            self._session.refresh(row)
            yield self._names[row.id], row, self._agents.load_row_transforms(row)

    def _load_rows(self, declaration: Declaration) -> None:
        """Load the records that the declaration can name."""
        for row in self._categories.list():
            self._add("category", "", row.name, row, row.name)
        for row in self._agents.list():
            self._add("agent", row.category_id or "", row.name, row, self._join(row.category_id, row.name))
        if declaration.agents:
            for row in self._extensions.list():
                self._add("extension", row.agent_id, row.folded_name, row, self._join(row.agent_id, row.name))
        for row in self._projects.list():
            self._add("project", "", row.name, row, row.name)
        if not declaration.projects:
            return
        slugs: defaultdict[str, list[str]] = defaultdict(list)
        owner = self._caller.organization_id
        for row in self._session.scalars(select(Job).where(Job.organization_id == owner).order_by(Job.id)):
            self._add("job", row.project_id, row.name, row, self._join(row.project_id, row.name))
            slugs[row.project_id].append(row.slug)
        for row in self._session.scalars(select(Schedule).where(Schedule.organization_id == owner)):
            name = self._join(row.project_id, row.name) if row.name else self._names[row.project_id]
            self._add("schedule", row.project_id, row.name, row, name)
        for row in self._session.scalars(select(Webhook).where(Webhook.organization_id == owner).order_by(Webhook.id)):
            self._add("webhook", row.project_id, row.url, row, self._join(row.project_id, row.url))
        for row in self._session.scalars(select(NotificationRule).where(NotificationRule.organization_id == owner)):
            self._add("notification", row.project_id, row.name, row, self._join(row.project_id, row.name))
        self._slugs = {project_id: SlugAllocator(used) for project_id, used in slugs.items()}
        self._slugs[""] = SlugAllocator(self._projects.load_slugs())

    def _add(self, kind: str, parent_id: str, key: str, row: Owned, name: str) -> None:
        self._rows[kind, parent_id, key].append(row)
        self._names[row.id] = name

    def _join(self, parent_id: str | None, name: str) -> str:
        parent = self._names.get(parent_id or "")
        return f"{parent}/{name}" if parent else name

    def _get_values(self, table: type[Owned], declared: DeclaredFields, **computed: Any) -> Columns:
        """Return the columns to set: a field that is left out keeps its value unless the declaration is complete."""
        columns = table.__table__.columns
        return {
            name: value
            for name, value in (dict(declared) | computed).items()
            if name in columns and (value is not None or (self._complete and columns[name].nullable))
        }

    def _write(
        self,
        key: Key,
        name: str,
        values: Columns,
        create: Callable[[Columns], Any],
        update: Callable[[str, Columns], Any],
    ) -> Any:
        """Create the row, which the next flush inserts, or update the values that differ."""
        rows, position = self._rows[key], self._matched[key]
        self._matched[key] += 1
        if len(rows) > 1 and not self._complete:
            raise reject_ambiguous(key[0], name)
        known = {column: value for column, value in values.items() if value is not None}
        try:
            if position == len(rows) or rows[position] is None:
                row = create(known)
                row.id = row.id or new_id()
                self._session.add(row)
                self._add(*key, row, name)
                if position < len(rows) - 1:
                    rows[position] = rows.pop()
                self._note_change(Action.CREATE, key[0], name, row)
                return row
            row = rows[position]
            before = {column: _get_value(row, column) for column in values}
            different = {column: value for column, value in values.items() if value != before[column]}
            if not different:
                self.unchanged += 1
                return row
            fields = (self._describe(column, before[column], value) for column, value in different.items())
            self._note_change(Action.CHANGE, key[0], name, row, *fields)
            update(row.id, {column: value for column, value in different.items() if column in known})
        except (BadInput, Conflict) as error:
            raise type(error)(f"{key[0]} '{name}': {error.sentence}", error.details) from error
        for column in different.keys() - known.keys():  # which updates ignore
            setattr(row, column, None)
        self._session.flush()
        return row

    def _note_change(self, action: Action, kind: str, name: str, row: Any, *fields: FieldChange) -> None:
        self.changes.append(RecordChange(action, kind, name, fields))
        if isinstance(row, Job) and action is not Action.DELETE:
            self.changed_job_ids.append(row.id)
        elif isinstance(row, Agent):
            self._changed_agents[row.id] = row
        elif isinstance(row, PythonExtension):
            self._changed_agents[row.agent_id] = self._session.get_one(Agent, row.agent_id)
        if len(self.changes) > MAX_CHANGES and not self._complete:
            sentence = f"The declaration changes more than {MAX_CHANGES:,} records. Apply it in parts."
            raise BadInput(sentence, code="too-large")

    def _write_category(self, declared: CategoryDeclaration) -> None:
        # private categories may have the name: an admin sees all of them
        create = self._categories.build if self._caller.admin else self._categories.create
        self._write(
            ("category", "", declared.name),
            declared.name,
            self._get_values(Category, declared),
            lambda new: create(CategoryCreate(**new), created_by_key_id=self._caller.key_id),
            lambda row_id, changes: self._categories.update(row_id, CategoryUpdate(**changes)),
        )

    def _write_agent(self, declared: AgentDeclaration) -> Agent:
        name = format_name(("agent", declared.category or "", declared.name))
        category_id = self._find_id(f"agent '{name}'", "category", "", declared.category)
        pipeline = get_pipeline_text(declared)
        code = declared.code if pipeline is None else None
        values = self._get_values(Agent, declared, category_id=category_id, pipeline_yaml=pipeline, code=code)
        if code is not None:
            values.pop("pipeline_yaml", None)  # the code gives it
        key = ("agent", category_id or "", declared.name)
        return self._write(
            key,
            name,
            values,
            lambda new: self._agents.build(AgentCreate(**new)),
            lambda row_id, changes: self._agents.update(row_id, AgentUpdate(**changes)),
        )

    def _write_extension(self, agent: Agent, agent_name: str, declared: ExtensionDeclaration) -> None:
        def create(values: Columns) -> PythonExtension:
            return self._extensions.create(agent.id, ExtensionCreate(**({"source": ""} | values)))

        values = self._get_values(PythonExtension, declared, source=declared.function)
        key = ("extension", agent.id, normalize(declared.name))
        self._write(
            key,
            f"{agent_name}/{declared.name}",
            values,
            create,
            lambda row_id, changes: self._extensions.update(row_id, ExtensionUpdate(**changes)),
        )

    def _write_project(self, declared: ProjectDeclaration) -> Project:
        def create(values: Columns) -> Project:
            project = self._projects.build(ProjectCreate(**values))
            project.slug = self._slugs[""].allocate(project.name)
            return project

        values = self._get_values(Project, declared)
        return self._write(
            ("project", "", declared.name),
            declared.name,
            values,
            create,
            lambda row_id, changes: self._projects.update(row_id, ProjectUpdate(**changes)),
        )

    def _match_slugs(self, project: Project, jobs: Sequence[JobDeclaration]) -> None:
        """Order the jobs of one name as the declaration has them, by their slugs; None where it has a new one."""
        named: defaultdict[str, list[str]] = defaultdict(list)
        for job in jobs if self._complete else ():
            if job.slug is not None:
                named[job.name].append(job.slug)
        for name, slugs in named.items():
            rows = self._rows["job", project.id, name]
            known = {row.slug: row for row in rows}
            others = [row for row in rows if row.slug not in slugs]
            ordered = [known.get(slug) or (others.pop(0) if others else None) for slug in slugs]
            rows[:] = [*ordered, *others]

    def _write_job(self, project: Project, declared: JobDeclaration) -> None:
        name = f"{project.name}/{declared.name}"

        def create(values: Columns) -> Job:
            time = values.get("scheduled_time")
            if not self._complete:
                check_scheduled_time(time)
            job = self._jobs.build(project.id, JobCreate(**values))
            job.slug = self._slugs.setdefault(project.id, SlugAllocator(())).allocate(declared.slug or job.name)
            job.handled_time = time if time is not None and is_past(time) else None
            return job

        def update(job_id: str, changes: Columns) -> Job:
            time = changes.get("scheduled_time")
            if not self._complete or time is None or not is_past(time):
                return self._jobs.update(project.id, job_id, JobUpdate(**changes))
            job = self._jobs.update(project.id, job_id, JobUpdate(**(changes | {"scheduled_time": None})))
            job.scheduled_time = job.handled_time = time
            return job

        agent_id = None if declared.agent is None else self._find_agent(name, declared.agent).id
        values = self._get_values(Job, declared, agent_id=agent_id, slug=None)
        if declared.partitions is not None:
            values |= {"partitions": dump_partitions(declared.partitions)}
        table = declared.input_dataset
        known = self._references.load_ids(DATASET) if table is not None else {}
        if table in known or (table is None and self._complete):
            values |= {"input_dataset_id": known[table][0] if table is not None else None}
        if declared.cloud_credentials is not None or self._complete:
            ids = self._find_credentials(name, declared.cloud_credentials or [])
            values |= {} if ids is None else {"cloud_credential_ids": ids}
        position = len(self.changes)
        job = self._write(("job", project.id, declared.name), name, values, create, update)
        if declared.depends_on:
            self._dependent.append(job)
        if table is not None and table not in known:
            change = position if len(self.changes) > position else None
            self._missing_inputs.append(MissingInput(job, name, table, change))

    def _create_input(self, missing: MissingInput) -> None:
        """Set the input that a job declared before it existed: the table of a job that has not published yet."""
        job, name = missing.job, missing.name
        dataset_id = self._references.create_job_table(missing.table)
        if dataset_id is None:
            if not self._complete:
                raise _reject_reference(f"job '{name}'", DATASET, missing.table, self._references.list_tables())
            self.warnings.append(f"job '{name}': its input, the table {missing.table}, is not here.")
            return
        field = self._describe("input_dataset_id", job.input_dataset_id, dataset_id)
        self._jobs.update(job.project_id, job.id, JobUpdate(input_dataset_id=dataset_id))
        if missing.change is None:
            self.unchanged -= 1
            self._note_change(Action.CHANGE, "job", name, job, field)
        elif (change := self.changes[missing.change]).action is Action.CHANGE:
            self.changes[missing.change] = replace(change, fields=(*change.fields, field))

    def _write_schedule(self, project: Project, declared: ScheduleDeclaration) -> None:
        job_id = self._find_id(f"project '{project.name}'", "job", project.id, declared.job)
        values = self._get_values(Schedule, declared, job_id=job_id)
        schedule_name: str = values.pop("name", "")

        def create(values: Columns) -> Schedule:
            if not schedule_name:
                return self._schedules.update(project, ScheduleUpdate(**values))
            return self._schedules.create(project, ScheduleCreate(name=schedule_name, **values))

        def update(_schedule_id: str, changes: Columns) -> Schedule:
            return self._schedules.update(project, ScheduleUpdate(**changes), schedule_name)

        name = f"{project.name}/{schedule_name}" if schedule_name else project.name
        self._write(("schedule", project.id, schedule_name), name, values, create, update)

    def _write_webhook(self, project: Project, declared: WebhookDeclaration) -> None:
        name = f"{project.name}/{declared.url}"

        def create(values: Columns) -> Webhook:
            key_ring = KeyRing(load_service_key(self._settings))
            webhook, _ = self._webhooks.create(self._settings, key_ring, project.id, WebhookCreate(**values))
            self.warnings.append(
                f"webhook '{name}': to verify what it is sent, read a secret by "
                f"POST /projects/id/{project.id}/webhooks/{webhook.id}/rotate."
            )
            return webhook

        def update(webhook_id: str, changes: Columns) -> Webhook:
            return self._webhooks.update(self._settings, project.id, webhook_id, WebhookUpdate(**changes))

        self._write(("webhook", project.id, declared.url), name, self._get_values(Webhook, declared), create, update)

    def _write_rule(self, project: Project, declared: NotificationDeclaration) -> None:
        name = f"{project.name}/{declared.name}"
        targets = self._references.load_ids(CREDENTIAL).get(declared.to or "", ())
        if declared.to is not None and not targets:
            raise _reject_reference(
                f"notification '{name}'", "target", declared.to, self._references.load_ids(CREDENTIAL)
            )
        if len(targets) > 1:
            raise BadInput(f"notification '{name}': there is more than one credential '{declared.to}'.", path="to")
        values = self._get_values(
            NotificationRule,
            declared,
            job_id=self._find_id(f"notification '{name}'", "job", project.id, declared.job),
            cloud_credential_id=targets[0] if targets else None,
        )

        def create(values: Columns) -> NotificationRule:
            if declared.to is None:
                raise BadInput("'to' is missing: the target, a credential as PROVIDER/name.", path="to")
            return self._rules.create(project.id, RuleCreate(**values))

        def update(_rule_id: str, changes: Columns) -> NotificationRule:
            return self._rules.update(project.id, declared.name, RuleUpdate(**changes))

        self._write(("notification", project.id, declared.name), name, values, create, update)

    def _find_id(self, record: str, kind: str, parent_id: str, name: str | None) -> str | None:
        """Return the id of a category, or of a job of the project, by its name."""
        if name is None:
            return None
        rows = self._rows.get((kind, parent_id, name))
        if not rows:
            known = [key[2] for key, found in self._rows.items() if key[:2] == (kind, parent_id) and found]
            raise _reject_reference(record, kind, name, known)
        return rows[0].id

    def _index_agents(self) -> None:
        """Collect the agents that jobs may refer to: by their categories and names, and by their names alone."""
        for key, rows in self._rows.items():
            for row in rows if key[0] == "agent" else ():
                for name in {self._names[row.id], row.name}:
                    self._agents_by_name[name].append(row)

    def _find_agent(self, job: str, name: str) -> Agent:
        """Return an agent by its name, with its category's unless the name alone is unique."""
        known = self._agents_by_name.get(name, ())
        found = [row for row in known if self._names[row.id] == name] or known
        if not found:
            raise _reject_reference(f"job '{job}'", "agent", name, self._agents_by_name)
        if len(found) > 1 and len({row.category_id for row in found}) == 1:
            raise reject_ambiguous("agent", self._names[found[0].id])
        if len(found) > 1:
            raise BadInput(f"job '{job}': there is more than one agent '{name}'.", path="agent")
        return found[0]

    def _find_credentials(self, job: str, names: Sequence[str]) -> list[str] | None:
        """Return the ids of a job's credentials, or None after a warning that a complete declaration has others."""
        known = self._references.load_ids(CREDENTIAL) if names else {}
        ids: list[str] = []
        for name in names:
            found = known.get(name, ())
            if len(found) == 1:
                ids.append(found[0])
            elif self._complete:
                provider, _, own_name = name.partition("/")
                number = "more than one" if found else "no"
                self.warnings.append(f"job '{job}': there is {number} {provider} credential '{own_name}' here.")
                return None
            elif found:
                raise BadInput(f"job '{job}': there is more than one {CREDENTIAL} '{name}'.", path=CREDENTIAL)
            else:
                raise _reject_reference(f"job '{job}'", CREDENTIAL, name, known)
        return ids

    def _prune(self, declaration: Declaration, inner: Set[tuple[str, str]]) -> None:
        """Delete the records that a section of the declaration omits; `inner` are sections of agents and projects."""
        top = {"category": declaration.categories, "agent": declaration.agents, "project": declaration.projects}
        surplus = [
            (key, rows)
            for key, rows in self._rows.items()
            if len(rows) > self._matched[key] and (top.get(key[0]) is not None or (key[:2] in inner and key[2]))
        ]
        for key, rows in sorted(surplus, key=lambda each: KINDS.index(each[0][0]), reverse=True):
            (row, *others), name = rows, self._names[rows[0].id]
            if others:
                raise reject_ambiguous(key[0], name)
            self._note_change(Action.DELETE, key[0], name, row)
            self._delete(row)

    def _delete(self, row: Any) -> None:
        match row:
            case Category():
                self._categories.delete(row.id)
            case Agent():
                del self._changed_agents[row.id]
                self._agents.delete(row.id)
            case PythonExtension():
                self._extensions.delete(row.id)
            case Schedule():
                self._session.delete(row)
            case NotificationRule():
                self._rules.delete(row.project_id, row.name)
            case Webhook():
                self._webhooks.delete(row.project_id, row.id)
            case Project():
                self._projects.delete(row.id, end_executions)
            case _:
                self._jobs.lock(row)
                self._jobs.delete(row.project_id, row.id, end_executions)

    def _describe(self, column: str, before: Any, after: Any) -> FieldChange:
        """Return a changed column in the terms of a declaration."""
        name = NAMES.get(column, to_camel(column))
        return FieldChange(name, self._describe_value(column, before), self._describe_value(column, after))

    def _describe_value(self, column: str, value: Any) -> Any:
        match column:
            case _ if value is None:
                return None
            case "agent_id":
                return self._names.get(value)
            case "input_dataset_id":
                return self._references.find_name(DATASET, value)
            case "cloud_credential_ids":
                return [self._references.find_name(CREDENTIAL, each) for each in value]
            case "cloud_credential_id":
                return self._references.find_name(CREDENTIAL, value)
            case "job_id":
                job = self._session.get(Job, value)
                return job.name if job else None
            case "scheduled_time":
                return format_time(value)
            case _:
                return value


def get_pipeline_text(declared: AgentDeclaration) -> str | None:
    """Return the pipeline as text, also one that is declared as code: a map becomes YAML."""
    if isinstance(declared.pipeline, dict):
        return write_yaml(declared.pipeline)
    if declared.pipeline is None and declared.code is not None and looks_like_pipeline(declared.code):
        return declared.code
    return declared.pipeline


def _get_value(row: Any, column: str) -> Any:
    return list(get_job_credential_ids(row)) if column == "cloud_credential_ids" else getattr(row, column)


def reject_ambiguous(kind: str, name: str) -> Conflict:
    return Conflict(f"The server has more than one {kind} '{name}'. Rename or delete all but one.", code="name-taken")


def _reject_reference(record: str, kind: str, name: str, known: Iterable[str]) -> BadInput:
    similar = suggest(name, dict.fromkeys(known))
    hint = f" Did you mean {' or '.join(similar)}?" if similar else ""
    sentence = f"{record}: there is no {kind} '{name}'.{hint}"
    return BadInput(sentence, [Detail(kind, sentence, "not-found")])
