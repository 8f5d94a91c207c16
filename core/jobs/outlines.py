"""Outlines of jobs: everything that Dagster needs to draw a job, without a pipeline being parsed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.agents.plan_outline import CheckOutline, ColumnTypes, PlanOutline, StepOutline, outline_pipeline, read_outline
from core.datasets.repository import SCHEME
from core.errors import NotFound
from core.identity.organizations import is_shared
from core.jobs.lineage import DatasetPlace, JobPaths, Lineage, drop_cycles, find_inputs, resolve_path
from core.jobs.obstacles import (
    DISABLED_AGENT,
    DISABLED_JOB,
    DISABLED_PROJECT,
    NO_AGENT,
    NO_PIPELINE,
    PYTHON_AGENT,
)
from core.tables import Agent, Dataset, Job, Organization, Project

__all__ = ["CheckOutline", "JobKey", "JobOutline", "StepOutline", "load_outline", "load_outlines"]

JobKey = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobOutline:
    """A job as an asset.

    `key` is made of the slugs of project and job, with the organization's in front as soon as there are two. `inputs`
    are the keys of the jobs whose output it reads, without those that would close a cycle; `notes` name the latter.
    With an `obstacle`, a sentence, the job cannot be executed as it is.
    """

    organization_id: str
    organization_slug: str
    project_id: str
    project_slug: str
    project_name: str
    job_id: str
    slug: str
    name: str
    description: str | None
    key: JobKey
    steps: tuple[StepOutline, ...] = ()
    inputs: tuple[JobKey, ...] = ()
    checks: tuple[CheckOutline, ...] = ()
    columns: ColumnTypes = ()
    has_open_columns: bool = True
    agent_id: str | None = None
    agent_name: str | None = None
    agent_revision: int | None = None
    pipeline_yaml: str | None = None
    notes: tuple[str, ...] = ()
    obstacle: str | None = None


def load_outline(session: Session, job_id: str) -> JobOutline:
    """Return the outline of one job; raise NotFound."""
    outlines = load_outlines(session, [job_id])
    if not outlines:
        raise NotFound("There is no job with this id.")
    return outlines[0]


def load_outlines(session: Session, job_ids: Collection[str] | None = None) -> list[JobOutline]:
    """Return the outlines of these jobs, or of all, oldest first; unknown ids are left out."""
    loader = _Loader(session)
    rows = loader.load_rows(job_ids)
    lineage = loader.load_lineage(rows, everything=job_ids is None)
    return [loader.build(row, lineage.get(row.id, Lineage())) for row in rows]


_ROWS = (
    select(
        Job.id,
        Job.organization_id,
        Job.project_id,
        Job.agent_id,
        Job.slug,
        Job.name,
        Job.description,
        Job.input_dataset_id,
        Job.parameters,
        Job.enabled,
        Project.slug.label("project_slug"),
        Project.name.label("project_name"),
        Project.enabled.label("project_enabled"),
        Project.parameters.label("project_parameters"),
        Organization.slug.label("organization_slug"),
    )
    .join(Project, Project.id == Job.project_id)
    .join(Organization, Organization.id == Job.organization_id)
    .order_by(Job.id)
)
_PLACES = select(
    Dataset.id, Dataset.organization_id, Dataset.job_id, Dataset.schema_slug, Dataset.slug, Dataset.logical_path
)
_AGENTS = select(Agent.id, Agent.name, Agent.enabled, Agent.revision, Agent.pipeline_yaml, Agent.code, Agent.outline)


class _Loader:
    """Loads rows of jobs with what they refer to."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._is_shared = is_shared(session)
        self._agents: dict[str, Any] = {}
        self._plans: dict[str, PlanOutline] = {}
        self._keys: dict[str, JobKey] = {}
        self._names: dict[str, str] = {}

    def load_rows(self, job_ids: Collection[str] | None) -> Sequence[Any]:
        rows = self._session.execute(_ROWS if job_ids is None else _ROWS.where(Job.id.in_(job_ids))).all()
        self._add(rows)
        return rows

    def load_lineage(self, rows: Sequence[Any], *, everything: bool) -> Mapping[str, Lineage]:
        """Return the lineage of all jobs in the organizations of those rows that read anything."""
        readers = {row.organization_id for row in rows if row.input_dataset_id or self._get_plan(row).reads}
        if not readers:
            return {}
        if not everything:
            statement = _ROWS.where(Job.organization_id.in_(readers), Job.id.not_in([row.id for row in rows]))
            others = self._session.execute(statement).all()
            self._add(others)
            rows = [*rows, *others]
        places = self._session.execute(_PLACES.where(Dataset.organization_id.in_(readers)))
        datasets = [
            DatasetPlace(place.id, place.organization_id, place.job_id, _get_table(place), place.logical_path)
            for place in places
        ]
        return drop_cycles(find_inputs([self._make_paths(row) for row in rows], datasets))

    def build(self, row: Any, lineage: Lineage) -> JobOutline:
        plan, agent = self._get_plan(row), self._agents.get(row.agent_id)
        return JobOutline(
            organization_id=row.organization_id,
            organization_slug=row.organization_slug,
            project_id=row.project_id,
            project_slug=row.project_slug,
            project_name=row.project_name,
            job_id=row.id,
            slug=row.slug,
            name=row.name,
            description=row.description,
            key=self._keys[row.id],
            steps=plan.steps,
            inputs=tuple(self._keys[each] for each in lineage.inputs),
            checks=plan.checks,
            columns=plan.columns,
            has_open_columns=plan.has_open_columns,
            agent_id=agent and agent.id,
            agent_name=agent and agent.name,
            agent_revision=agent and agent.revision,
            pipeline_yaml=agent and agent.pipeline_yaml,
            notes=tuple(self._describe_dropped(each) for each in lineage.dropped),
            obstacle=_find_obstacle(row, agent, plan),
        )

    def _add(self, rows: Sequence[Any]) -> None:
        """Keep the rows' keys and names, and load their agents."""
        for row in rows:
            slugs = (row.project_slug, row.slug)
            self._keys[row.id] = (row.organization_slug, *slugs) if self._is_shared else slugs
            self._names[row.id] = row.name
        missing = {row.agent_id for row in rows if row.agent_id} - self._agents.keys()
        if missing:
            found = self._session.execute(_AGENTS.where(Agent.id.in_(missing)))
            self._agents |= {agent.id: agent for agent in found}

    def _get_plan(self, row: Any) -> PlanOutline:
        agent = self._agents.get(row.agent_id)
        if agent is None or agent.pipeline_yaml is None:
            return PlanOutline()
        if agent.id not in self._plans:
            self._plans[agent.id] = read_outline(agent.outline) or _outline(agent.pipeline_yaml)
        return self._plans[agent.id]

    def _make_paths(self, row: Any) -> JobPaths:
        plan = self._get_plan(row)
        values = {**row.project_parameters, **row.parameters}

        def resolve(paths: Iterable[str]) -> tuple[str, ...]:
            found = (resolve_path(path, values, row.project_slug) for path in paths)
            return tuple(path for path in found if path is not None)

        output = () if plan.output_path is None else (plan.output_path,)
        return JobPaths(
            job_id=row.id,
            organization_id=row.organization_id,
            table=f"{SCHEME}{row.project_slug}/{row.slug}",
            input_dataset_id=row.input_dataset_id,
            reads=resolve(plan.reads),
            writes=resolve((*plan.saves, *output)),
        )

    def _describe_dropped(self, job_id: str) -> str:
        return (
            f"It also reads the output of {self._names[job_id]!r}, which depends on this job: "
            "that input is left out of the lineage, because assets cannot depend on each other in a circle."
        )


def _get_table(dataset: Any) -> str:
    return f"{SCHEME}{dataset.schema_slug}/{dataset.slug}"


def _find_obstacle(row: Any, agent: Any, plan: PlanOutline) -> str | None:
    if not row.project_enabled:
        return DISABLED_PROJECT
    if not row.enabled:
        return DISABLED_JOB
    if agent is None:
        return NO_AGENT
    if not agent.enabled:
        return DISABLED_AGENT
    if agent.pipeline_yaml is None:
        return NO_PIPELINE if agent.code is None else PYTHON_AGENT
    return plan.fault


@lru_cache(1000)
def _outline(text: str) -> PlanOutline:
    return outline_pipeline(text)
