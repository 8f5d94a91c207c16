"""Applying a declaration to an organization: records are matched by name, then changed, created or deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.orm import Session

from core.definitions.agents.models import AgentCreate, AgentUpdate
from core.definitions.agents.repository import NO_TEXTS, AgentRepository
from core.definitions.agents.texts import CheckedTexts
from core.definitions.categories.models import CategoryCreate, CategoryUpdate
from core.definitions.categories.repository import CategoryRepository
from core.definitions.identity.api_keys import Identity
from core.definitions.jobs.models import JobCreate, JobUpdate
from core.definitions.jobs.partitions import dump_partitions
from core.definitions.jobs.repository import JobRepository
from core.definitions.pools.models import PoolCreate, PoolUpdate
from core.definitions.pools.repository import PoolRepository
from core.definitions.projects.models import ProjectCreate, ProjectUpdate
from core.definitions.projects.repository import ProjectRepository
from core.definitions.python_extensions.models import ExtensionCreate, ExtensionUpdate
from core.definitions.python_extensions.repository import PythonExtensionRepository
from core.definitions.schedules.models import ScheduleCreate, ScheduleUpdate
from core.definitions.schedules.repository import ScheduleRepository
from core.definitions.schedules.times import check_scheduled_time, is_past
from core.errors import BadInput
from core.infra.encryption import KeyRing
from core.infra.repository import lock_organization
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.infra.slugs import SlugAllocator
from core.integrations.declarations.models import (
    AgentDeclaration,
    CategoryDeclaration,
    Declaration,
    ExtensionDeclaration,
    JobDeclaration,
    NotificationDeclaration,
    PoolDeclaration,
    ProjectDeclaration,
    ScheduleDeclaration,
    WebhookDeclaration,
    format_name,
    get_pipeline_text,
)
from core.integrations.declarations.records import (
    Action,
    Columns,
    Records,
    reject_reference,
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
    ExecutionPool,
    Job,
    NotificationRule,
    Project,
    PythonExtension,
    Schedule,
    Webhook,
)
from pipelines.language.names import normalize


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
        self._session = session
        self._caller = caller
        self._complete = complete
        self._categories = CategoryRepository(session, owner, viewer)
        self._agents = AgentRepository(session, owner, viewer_key_id=viewer, texts=texts)
        self._extensions = PythonExtensionRepository(session, owner, viewer_key_id=viewer)
        self._projects = ProjectRepository(session, owner)
        self._pools = PoolRepository(session, owner)
        self._jobs = JobRepository(session, owner, viewer_key_id=viewer)
        self._schedules = ScheduleRepository(session, owner)
        self._webhooks = WebhookRepository(session, owner)
        self._rules = RuleRepository(session, owner)
        self._settings = settings
        self._references = References(session, owner)
        self.records = Records(session, self._references, complete=complete)
        self._missing_inputs: list[MissingInput] = []
        self._dependent: list[Job] = []

    def apply(self, declaration: Declaration, *, prune: bool = False) -> None:
        """Write the declared records. Raises BadInput and Conflict."""
        self.records.load(
            self._caller.organization_id,
            declaration,
            categories=self._categories.list(),
            agents=self._agents.list(),
            extensions=self._extensions.list() if declaration.agents else (),
            projects=self._projects.list(),
            pools=self._pools.list() if declaration.pools is not None else (),
        )
        if declaration.projects:
            self.records.slugs[""] = SlugAllocator(self._projects.load_slugs())
        for pool in declaration.pools or ():
            self._write_pool(pool)
        for category in declaration.categories or ():
            self._write_category(category)
        self._session.flush()  # a kind at a time: inserting thousands row by row took most of a minute
        agents = [(agent, self._write_agent(agent)) for agent in declaration.agents or ()]
        self._session.flush()
        for name, (agent, row) in zip(declaration.agent_names, agents, strict=True):
            for extension in agent.extensions or ():
                self._write_extension(row, name, extension)
            if self._complete:
                self.records.agents_by_name[name].append(row)
        if not self._complete:
            self.records.index_agents()
        projects = [(project, self._write_project(project)) for project in declaration.projects or ()]
        self._session.flush()
        for project, row in projects:
            self.records.match_slugs(row, project.jobs or ())
            for job in project.jobs or ():
                self._write_job(row, job)
        self._session.flush()
        for job in self._dependent:
            try:
                self._jobs.check_dependencies(job)
                self._jobs.check_pools(job)
            except BadInput as error:
                if not self._complete:
                    raise
                self.records.warnings.append(error.sentence)
        for missing in self._missing_inputs:
            self._create_input(missing)
        for project, row in projects:
            for schedule in (*([project.schedule] if project.schedule else ()), *(project.schedules or ())):
                self._write_schedule(row, schedule)
            for webhook in project.webhooks or ():
                self._write_webhook(row, webhook)
            for rule in project.notifications or ():
                self._write_rule(row, rule)
            if row.cron_schedule or self.records.rows["schedule", row.id, ""]:
                self._schedules.plan(row)
        order = {(key[0], format_name(key)): number for number, key in enumerate(declaration.iter_keys())}
        self.records.changes.sort(key=lambda change: order[change.kind, change.name])
        if prune:
            inner = {("extension", row.id) for agent, row in agents if agent.extensions is not None}
            inner |= {("job", row.id) for project, row in projects if project.jobs is not None}
            inner |= {("webhook", row.id) for project, row in projects if project.webhooks is not None}
            inner |= {("notification", row.id) for project, row in projects if project.notifications is not None}
            inner |= {("schedule", row.id) for project, row in projects if project.schedules is not None}
            self._prune(declaration, inner)

    def list_changed_agents(self) -> Iterator[tuple[str, Agent, Mapping[str, str]]]:
        """Iterate over the agents that were written, with their names and row transforms."""
        for row in self.records.changed_agents.values():
            self._session.refresh(row)
            yield self.records.names[row.id], row, self._agents.load_row_transforms(row)

    def _write_pool(self, declared: PoolDeclaration) -> None:
        self.records.write(
            ("pool", "", declared.name),
            declared.name,
            self.records.get_values(ExecutionPool, declared),
            lambda new: self._pools.build(PoolCreate(**new)),
            lambda _, changes: self._pools.update(declared.name, PoolUpdate(**changes)),
        )

    def _write_category(self, declared: CategoryDeclaration) -> None:
        # private categories may have the name: an admin sees all of them
        create = self._categories.build if self._caller.admin else self._categories.create
        self.records.write(
            ("category", "", declared.name),
            declared.name,
            self.records.get_values(Category, declared),
            lambda new: create(CategoryCreate(**new), created_by_key_id=self._caller.owner_id),
            lambda row_id, changes: self._categories.update(row_id, CategoryUpdate(**changes)),
        )

    def _write_agent(self, declared: AgentDeclaration) -> Agent:
        name = format_name(("agent", declared.category or "", declared.name))
        category_id = self.records.find_id(f"agent '{name}'", "category", "", declared.category)
        pipeline = get_pipeline_text(declared)
        code = declared.code if pipeline is None else None
        values = self.records.get_values(Agent, declared, category_id=category_id, pipeline_yaml=pipeline, code=code)
        if code is not None:
            values.pop("pipeline_yaml", None)  # the code gives it
        key = ("agent", category_id or "", declared.name)
        return self.records.write(
            key,
            name,
            values,
            lambda new: self._agents.build(AgentCreate(**new)),
            lambda row_id, changes: self._agents.update(row_id, AgentUpdate(**changes)),
        )

    def _write_extension(self, agent: Agent, agent_name: str, declared: ExtensionDeclaration) -> None:
        def create(values: Columns) -> PythonExtension:
            return self._extensions.create(agent.id, ExtensionCreate(**({"source": ""} | values)))

        values = self.records.get_values(PythonExtension, declared, source=declared.function)
        key = ("extension", agent.id, normalize(declared.name))
        self.records.write(
            key,
            f"{agent_name}/{declared.name}",
            values,
            create,
            lambda row_id, changes: self._extensions.update(row_id, ExtensionUpdate(**changes)),
        )

    def _write_project(self, declared: ProjectDeclaration) -> Project:
        def create(values: Columns) -> Project:
            project = self._projects.build(ProjectCreate(**values))
            project.slug = self.records.slugs[""].allocate(project.name)
            return project

        values = self.records.get_values(Project, declared)
        return self.records.write(
            ("project", "", declared.name),
            declared.name,
            values,
            create,
            lambda row_id, changes: self._projects.update(row_id, ProjectUpdate(**changes)),
        )

    def _write_job(self, project: Project, declared: JobDeclaration) -> None:
        name = f"{project.name}/{declared.name}"

        def create(values: Columns) -> Job:
            time = values.get("scheduled_time")
            if not self._complete:
                check_scheduled_time(time)
            job = self._jobs.build(project.id, JobCreate(**values))
            job.slug = self.records.slugs.setdefault(project.id, SlugAllocator(())).allocate(declared.slug or job.name)
            job.handled_time = time if time is not None and is_past(time) else None
            return job

        def update(job_id: str, changes: Columns) -> Job:
            time = changes.get("scheduled_time")
            if not self._complete or time is None or not is_past(time):
                return self._jobs.update(project.id, job_id, JobUpdate(**changes))
            job = self._jobs.update(project.id, job_id, JobUpdate(**(changes | {"scheduled_time": None})))
            job.scheduled_time = job.handled_time = time
            return job

        agent_id = None if declared.agent is None else self.records.find_agent(name, declared.agent).id
        values = self.records.get_values(Job, declared, agent_id=agent_id, slug=None)
        if declared.partitions is not None:
            values |= {"partitions": dump_partitions(declared.partitions)}
        table = declared.input_dataset
        known = self._references.load_ids(DATASET) if table is not None else {}
        if table in known or (table is None and self._complete):
            values |= {"input_dataset_id": known[table][0] if table is not None else None}
        if declared.cloud_credentials is not None or self._complete:
            ids = self.records.find_credentials(name, declared.cloud_credentials or [])
            values |= {} if ids is None else {"cloud_credential_ids": ids}
        position = len(self.records.changes)
        job = self.records.write(("job", project.id, declared.name), name, values, create, update)
        if declared.depends_on or declared.pools:
            self._dependent.append(job)
        if table is not None and table not in known:
            change = position if len(self.records.changes) > position else None
            self._missing_inputs.append(MissingInput(job, name, table, change))

    def _create_input(self, missing: MissingInput) -> None:
        """Set the input that a job declared before it existed: the table of a job that has not published yet."""
        job, name = missing.job, missing.name
        dataset_id = self._references.create_job_table(missing.table)
        if dataset_id is None:
            if not self._complete:
                raise reject_reference(f"job '{name}'", DATASET, missing.table, self._references.list_tables())
            self.records.warnings.append(f"job '{name}': its input, the table {missing.table}, is not here.")
            return
        field = self.records.describe("input_dataset_id", job.input_dataset_id, dataset_id)
        self._jobs.update(job.project_id, job.id, JobUpdate(input_dataset_id=dataset_id))
        if missing.change is None:
            self.records.unchanged -= 1
            self.records.note_change(Action.CHANGE, "job", name, job, field)
        elif (change := self.records.changes[missing.change]).action is Action.CHANGE:
            self.records.changes[missing.change] = replace(change, fields=(*change.fields, field))

    def _write_schedule(self, project: Project, declared: ScheduleDeclaration) -> None:
        job_id = self.records.find_id(f"project '{project.name}'", "job", project.id, declared.job)
        values = self.records.get_values(Schedule, declared, job_id=job_id)
        schedule_name: str = values.pop("name", "")

        def create(values: Columns) -> Schedule:
            if not schedule_name:
                return self._schedules.update(project, ScheduleUpdate(**values))
            return self._schedules.create(project, ScheduleCreate(name=schedule_name, **values))

        def update(_schedule_id: str, changes: Columns) -> Schedule:
            return self._schedules.update(project, ScheduleUpdate(**changes), schedule_name)

        name = f"{project.name}/{schedule_name}" if schedule_name else project.name
        self.records.write(("schedule", project.id, schedule_name), name, values, create, update)

    def _write_webhook(self, project: Project, declared: WebhookDeclaration) -> None:
        name = f"{project.name}/{declared.url}"

        def create(values: Columns) -> Webhook:
            key_ring = KeyRing(load_service_key(self._settings))
            webhook, _ = self._webhooks.create(self._settings, key_ring, project.id, WebhookCreate(**values))
            self.records.warnings.append(
                f"webhook '{name}': to verify what it is sent, read a secret by "
                f"POST /projects/id/{project.id}/webhooks/{webhook.id}/rotate."
            )
            return webhook

        def update(webhook_id: str, changes: Columns) -> Webhook:
            return self._webhooks.update(self._settings, project.id, webhook_id, WebhookUpdate(**changes))

        self.records.write(
            ("webhook", project.id, declared.url), name, self.records.get_values(Webhook, declared), create, update
        )

    def _write_rule(self, project: Project, declared: NotificationDeclaration) -> None:
        name = f"{project.name}/{declared.name}"
        targets = self._references.load_ids(CREDENTIAL).get(declared.to or "", ())
        if declared.to is not None and not targets:
            raise reject_reference(
                f"notification '{name}'", "target", declared.to, self._references.load_ids(CREDENTIAL)
            )
        if len(targets) > 1:
            raise BadInput(f"notification '{name}': there is more than one credential '{declared.to}'.", path="to")
        values = self.records.get_values(
            NotificationRule,
            declared,
            job_id=self.records.find_id(f"notification '{name}'", "job", project.id, declared.job),
            cloud_credential_id=targets[0] if targets else None,
        )

        def create(values: Columns) -> NotificationRule:
            if declared.to is None:
                raise BadInput("'to' is missing: the target, a credential as PROVIDER/name.", path="to")
            return self._rules.create(project.id, RuleCreate(**values))

        def update(_rule_id: str, changes: Columns) -> NotificationRule:
            return self._rules.update(project.id, declared.name, RuleUpdate(**changes))

        self.records.write(("notification", project.id, declared.name), name, values, create, update)

    def _prune(self, declaration: Declaration, inner: Set[tuple[str, str]]) -> None:
        """Delete the records that a section of the declaration omits; `inner` are sections of agents and projects."""
        top = {"category": declaration.categories, "agent": declaration.agents, "project": declaration.projects}
        top |= {"pool": declaration.pools}
        for key, row, name in self.records.list_surplus(top, inner):
            self.records.note_change(Action.DELETE, key[0], name, row)
            self._delete(row)

    def _delete(self, row: Any) -> None:
        match row:
            case Category():
                self._categories.delete(row.id)
            case ExecutionPool():
                self._pools.delete(row.name)
            case Agent():
                del self.records.changed_agents[row.id]
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
