"""Export of an organization's categories, agents, projects and jobs as a declaration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.agents.repository import AgentRepository
from core.definitions.categories.repository import CategoryRepository
from core.definitions.credentials.repository import get_job_credential_ids
from core.definitions.identity.api_keys import Identity
from core.definitions.projects.repository import ProjectRepository
from core.definitions.python_extensions.repository import PythonExtensionRepository
from core.definitions.schedules.times import is_past
from core.integrations.declarations.models import (
    AgentDeclaration,
    CategoryDeclaration,
    Declaration,
    DeclaredFields,
    ExtensionDeclaration,
    JobDeclaration,
    NamedScheduleDeclaration,
    NotificationDeclaration,
    PoolDeclaration,
    ProjectDeclaration,
    ScheduleDeclaration,
    WebhookDeclaration,
    name_agents,
)
from core.integrations.declarations.references import CREDENTIAL, DATASET, References
from core.tables import Agent, ExecutionPool, Job, NotificationRule, Owned, Schedule, Webhook

Fields = TypeVar("Fields", bound=DeclaredFields)
Row = TypeVar("Row", bound=Owned)
ALWAYS_WRITTEN = {"visibility"}  # a category that is public by default must not depend on it


def export_declaration(session: Session, caller: Identity, *, minimal: bool = False) -> Declaration:
    """Return all records that the caller may see, ordered by name, and by creation among equal names.

    So equal records give equal declarations. A `minimal` one omits defaults and past times, as a person would, and is
    in the order of creation.
    """
    return _Exporter(session, caller, minimal).export()


class _Exporter:
    def __init__(self, session: Session, caller: Identity, minimal: bool) -> None:
        self._session = session
        self._caller = caller
        self._minimal = minimal
        self._references = References(session, caller.organization_id)

    def export(self) -> Declaration:
        owner, viewer = self._caller.organization_id, self._caller.viewer_key_id
        categories = self._sort(CategoryRepository(self._session, owner, viewer).list(), lambda row: row.name)
        category_names = {row.id: row.name for row in categories}

        def get_names(row: Agent) -> tuple[str, str]:
            return category_names.get(row.category_id or "", ""), row.name

        rows = AgentRepository(self._session, owner, viewer_key_id=viewer).list()
        agents = self._sort(rows, get_names)
        agent_names = dict(zip((row.id for row in agents), name_agents(map(get_names, agents)), strict=True))
        extensions: defaultdict[str, list[ExtensionDeclaration]] = defaultdict(list)
        functions = PythonExtensionRepository(self._session, owner, viewer_key_id=viewer).list()
        for row in self._sort(functions, lambda row: row.folded_name):
            extensions[row.agent_id].append(self._declare(ExtensionDeclaration, row, function=row.source))
        jobs: defaultdict[str, list[Job]] = defaultdict(list)
        for row in self._sort(self._select(Job), lambda row: (row.name, row.slug)):
            jobs[row.project_id].append(row)
        schedules: defaultdict[str, list[Schedule]] = defaultdict(list)
        for row in self._sort(self._select(Schedule), lambda row: row.name):
            schedules[row.project_id].append(row)
        webhooks: defaultdict[str, list[WebhookDeclaration]] = defaultdict(list)
        for row in self._sort(self._select(Webhook), lambda row: row.url) if self._minimal else ():
            webhooks[row.project_id].append(self._declare(WebhookDeclaration, row))
        rules: defaultdict[str, list[NotificationRule]] = defaultdict(list)
        for row in self._sort(self._select(NotificationRule), lambda row: row.name) if self._minimal else ():
            rules[row.project_id].append(row)
        projects = self._sort(ProjectRepository(self._session, owner).list(), lambda row: row.name)
        pools = self._sort(self._select(ExecutionPool), lambda row: row.name) if self._minimal else ()
        return Declaration(
            pools=[self._declare(PoolDeclaration, row) for row in pools] or None,
            categories=[self._declare(CategoryDeclaration, row) for row in categories],
            agents=[
                self._declare(
                    AgentDeclaration,
                    row,
                    category=category_names.get(row.category_id or ""),
                    pipeline=row.pipeline_yaml if row.code is None else None,
                    extensions=extensions[row.id],
                )
                for row in agents
            ],
            projects=[
                self._declare(
                    ProjectDeclaration,
                    row,
                    webhooks=webhooks.get(row.id),
                    notifications=[self._declare_rule(each, jobs[row.id]) for each in rules[row.id]] or None,
                    jobs=[self._declare_job(job, agent_names) for job in jobs[row.id]],
                    schedule=self._declare_unnamed(schedules[row.id], jobs[row.id]),
                    schedules=[
                        self._declare_schedule(NamedScheduleDeclaration, each, jobs[row.id])
                        for each in schedules[row.id]
                        if each.name
                    ],
                )
                for row in projects
            ],
        )

    def _sort(self, rows: Iterable[Row], get_key: Callable[[Row], Any]) -> list[Row]:
        return sorted(rows, key=lambda row: row.id if self._minimal else (get_key(row), row.id))

    def _select(self, table: type[Row]) -> Sequence[Row]:
        query = select(table).where(table.organization_id == self._caller.organization_id)
        return self._session.scalars(query).all()

    def _declare(self, model: type[Fields], row: Owned, **computed: Any) -> Fields:
        """Return the columns of the row that the model has, and values for its other fields."""
        columns = row.__table__.columns
        values = {name: getattr(row, name) for name in model.model_fields if name in columns} | computed
        return model.model_validate(_omit_defaults(row, values) if self._minimal else values, by_name=True)

    def _declare_job(self, job: Job, agent_names: Mapping[str, str]) -> JobDeclaration:
        past = job.scheduled_time is not None and is_past(job.scheduled_time)
        dataset = job.input_dataset_id and self._references.find_name(DATASET, job.input_dataset_id)
        credentials = [self._references.find_name(CREDENTIAL, each) for each in get_job_credential_ids(job)]
        return self._declare(
            JobDeclaration,
            job,
            agent=agent_names.get(job.agent_id or ""),
            input_dataset=dataset or None,
            cloud_credentials=[each for each in credentials if each is not None],
            slug=None if self._minimal else job.slug,
            scheduled_time=None if past and self._minimal else job.scheduled_time,
        )

    def _declare_unnamed(self, schedules: Sequence[Schedule], jobs: Sequence[Job]) -> ScheduleDeclaration | None:
        """Return the schedule without a name unless it has the defaults."""
        schedule = next((each for each in schedules if not each.name), None)
        if schedule is None:
            return None
        declared = self._declare_schedule(ScheduleDeclaration, schedule, jobs)
        return declared if _omit_defaults(schedule, dict(declared)) else None

    def _declare_rule(self, rule: NotificationRule, jobs: Sequence[Job]) -> NotificationDeclaration:
        job = next((each.name for each in jobs if each.id == rule.job_id), None)
        target = self._references.find_name(CREDENTIAL, rule.cloud_credential_id)
        return self._declare(NotificationDeclaration, rule, job=job, to=target)

    def _declare_schedule(self, model: type[Fields], schedule: Schedule, jobs: Sequence[Job]) -> Fields:
        """Return a schedule; one of a job that was deleted is off."""
        job = next((each.name for each in jobs if each.id == schedule.job_id), None)
        enabled = schedule.enabled and (job is not None or not schedule.job_id)
        return self._declare(model, schedule, enabled=enabled, job=job)


def _omit_defaults(row: Owned, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that differ from nothing and from what the table would store without them."""
    columns = row.__table__.columns
    defaults = {name: getattr(columns[name].default, "arg", None) for name in values if name in columns}
    return {
        name: value
        for name, value in values.items()
        if name in ALWAYS_WRITTEN or value not in (None, {}, [], defaults.get(name))
    }
