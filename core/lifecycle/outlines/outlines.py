"""Outlines of jobs: everything that Dagster needs to draw a job, without a pipeline being parsed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from core.data.datasets.repository import SCHEME, TRIAL
from core.definitions.agents.plan_outline import (
    CheckOutline,
    ColumnTypes,
    PlanOutline,
    StepOutline,
    dump_outline,
    outline_pipeline,
    read_outline,
)
from core.definitions.identity.organizations import is_shared
from core.definitions.jobs.obstacles import (
    DISABLED_AGENT,
    DISABLED_JOB,
    DISABLED_PROJECT,
    NO_AGENT,
    NO_PIPELINE,
    PYTHON_AGENT,
)
from core.definitions.jobs.partitions import Partitions, read_partitions
from core.errors import NotFound
from core.infra.database import execute_update
from core.lifecycle.outlines.lineage import (
    DatasetPlace,
    JobPaths,
    Lineage,
    TableWriters,
    drop_cycles,
    find_cycle,
    resolve_name,
    resolve_path,
)
from core.lifecycle.outlines.parameters import ParameterOutline, outline_parameters
from core.lifecycle.outlines.sources import ColumnOutline, JobSources, SourceFinder, SourceOutline
from core.tables import Agent, Dataset, Job, Organization, Project
from pipelines.planning.partition import DESCRIPTION

__all__ = ["CheckOutline", "JobKey", "JobOutline", "OutlineLoader", "StepOutline", "load_outline", "load_outlines"]

JobKey = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobOutline:
    """A job as an asset.

    `key` is made of the slugs of project and job, with the organization's in front as soon as there are two. `inputs`
    are the keys of the jobs whose output it reads, without those that would close a cycle; `notes` name the latter. It
    reads all partitions of the `whole_inputs`, and of others that have some the one that it makes. `max_age` is its
    freshness, a duration of ISO 8601.
    `sources` are what it reads that no job writes, and `lineage` its columns with those that they are made of.
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
    parameters: tuple[ParameterOutline, ...] = ()
    kinds: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    owners: tuple[str, ...] = ()
    sources: tuple[SourceOutline, ...] = ()
    lineage: tuple[ColumnOutline, ...] = ()
    max_age: str | None = None
    on_new_input: bool = False
    notes: tuple[str, ...] = ()
    obstacle: str | None = None
    partitions: Partitions = field(default_factory=Partitions)
    whole_inputs: tuple[JobKey, ...] = ()


def load_outline(session: Session, job_id: str) -> JobOutline:
    """Return the outline of one job; raise NotFound."""
    outlines = OutlineLoader().load(session, [job_id])
    if not outlines:
        raise NotFound("There is no job with this id.")
    return outlines[0]


POOL_TAG = "spindle.pool"


def load_outlines(session: Session, job_ids: Collection[str] | None = None) -> list[JobOutline]:
    """Return the outlines of these jobs, or of all, oldest first; unknown ids are left out."""
    return OutlineLoader().load(session, job_ids)


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
        Job.tags,
        Job.owners,
        Job.depends_on,
        Job.freshness,
        Job.trigger,
        Job.enabled,
        Job.partitions,
        Job.pools,
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
).where(Dataset.dataset_type != TRIAL)
_AGENTS = select(Agent.id, Agent.name, Agent.enabled, Agent.revision)
_PIPELINES = select(
    Agent.id, Agent.revision, Agent.pipeline_yaml, Agent.code.is_not(None).label("has_code"), Agent.outline
)
_CHUNK = 1000  # ids in a statement


@dataclass(frozen=True, slots=True)
class _JobRow:
    """A row of `_ROWS`."""

    id: str
    organization_id: str
    project_id: str
    agent_id: str | None
    slug: str
    name: str
    description: str | None
    input_dataset_id: str | None
    parameters: Mapping[str, object]
    tags: Mapping[str, str]
    owners: Sequence[str]
    depends_on: Sequence[str]
    freshness: Mapping[str, str]
    trigger: Mapping[str, bool]
    enabled: bool
    partitions: Sequence[Any]
    pools: Sequence[str]
    project_slug: str
    project_name: str
    project_enabled: bool
    project_parameters: Mapping[str, object]
    organization_slug: str


@dataclass(frozen=True, slots=True)
class _AgentRow:
    """A row of `_AGENTS`."""

    id: str
    name: str
    enabled: bool
    revision: int


@dataclass(frozen=True, slots=True)
class _AgentPlan:
    """An agent's pipeline in one revision; `is_stored` when its outline was read from the database."""

    revision: int
    pipeline_yaml: str | None
    has_code: bool
    outline: PlanOutline
    is_stored: bool


class OutlineLoader:
    """Loads outlines, and keeps the agents' plans between its calls."""

    def __init__(self) -> None:
        self._plans: dict[str, _AgentPlan] = {}

    def load(self, session: Session, job_ids: Collection[str] | None = None) -> list[JobOutline]:
        """Return the outlines of these jobs, or of all, oldest first; unknown ids are left out."""
        rows = _select_jobs(session, job_ids)
        agents = self._load_agents(session, rows)
        if job_ids is None:
            self._plans = {agent_id: self._plans[agent_id] for agent_id in agents}
        everything, writers = self._find_writers(session, rows, agents, is_whole=job_ids is None)
        lineage = drop_cycles(writers.find_inputs() if writers else {})
        prefixed = is_shared(session)
        keys = {row.id: _make_key(row, prefixed) for row in everything}
        names = {row.id: row.name for row in everything}
        split = {row.id: read_partitions(row.partitions) for row in everything if row.partitions}
        return [
            self._build(
                row,
                agents,
                lineage.get(row.id, Lineage()),
                keys,
                names,
                everything,
                split,
                self._find_sources(row, agents, writers, keys, (row.organization_slug,) if prefixed else ()),
            )
            for row in rows
        ]

    def find_cycles(self, session: Session, job_ids: Collection[str]) -> list[tuple[str, ...]]:
        """Return the shortest cycle through each of these jobs that is in one, as names of jobs: each reads the next.

        A cycle is returned once. A job that reads its own table is no cycle.
        """
        rows = _select_jobs(session, job_ids)
        everything, writers = self._find_writers(session, rows, self._load_agents(session, rows), is_whole=False)
        inputs = writers.find_inputs() if writers else {}
        names = {row.id: row.name for row in everything}
        cycles = [cycle for row in rows if (cycle := find_cycle(inputs, row.id))]
        unique = {frozenset(cycle): cycle for cycle in reversed(cycles)}
        return [tuple(names[each] for each in cycle) for cycle in reversed(unique.values())]

    def list_missing(self) -> list[tuple[str, int, PlanOutline]]:
        """Return ids and revisions of the agents whose outline is not stored yet, with the outline."""
        return [(id_, each.revision, each.outline) for id_, each in self._plans.items() if not each.is_stored]

    def _load_agents(self, session: Session, rows: Iterable[_JobRow]) -> dict[str, _AgentRow]:
        """Return the agents of the jobs by id, and load the pipelines that have a new revision."""
        chunks = _split(sorted({row.agent_id for row in rows if row.agent_id}))
        found = (_AgentRow(*each) for chunk in chunks for each in session.execute(_AGENTS.where(Agent.id.in_(chunk))))
        agents = {agent.id: agent for agent in found}
        plans = self._plans
        changed = [id_ for id_, agent in agents.items() if id_ not in plans or plans[id_].revision != agent.revision]
        for chunk in _split(changed):
            for agent in session.execute(_PIPELINES.where(Agent.id.in_(chunk))):
                text, stored = agent.pipeline_yaml, read_outline(agent.outline)
                outline = PlanOutline() if text is None else stored or _outline(text)
                is_stored = text is None or stored is not None
                plans[agent.id] = _AgentPlan(agent.revision, text, agent.has_code, outline, is_stored)
        return {id_: agent for id_, agent in agents.items() if id_ in plans}

    def _get_plan(self, row: _JobRow, agents: Mapping[str, _AgentRow]) -> PlanOutline:
        return self._plans[row.agent_id].outline if row.agent_id and row.agent_id in agents else PlanOutline()

    def _find_sources(
        self,
        row: _JobRow,
        agents: Mapping[str, _AgentRow],
        writers: TableWriters | None,
        keys: Mapping[str, JobKey],
        prefix: JobKey,
    ) -> JobSources:
        plan = self._get_plan(row, agents)
        finder = SourceFinder(_make_paths(row, plan), _get_values(row), writers, keys, prefix)
        return finder.find(plan.lineage, plan.sources)

    def _find_writers(
        self, session: Session, rows: Sequence[_JobRow], agents: dict[str, _AgentRow], is_whole: bool
    ) -> tuple[Sequence[_JobRow], TableWriters | None]:
        """Return the jobs of the organizations in which these read others, with `agents` added, and who writes what."""
        plans = ((row, self._get_plan(row, agents)) for row in rows)
        readers = {
            row.organization_id
            for row, plan in plans
            if row.input_dataset_id or row.depends_on or plan.reads or plan.tables
        }
        if not readers:
            return rows, None
        everything = rows
        if not is_whole:
            loaded = {row.id for row in rows}
            found = session.execute(_ROWS.where(Job.organization_id.in_(readers)))
            others = [row for each in found if (row := _JobRow(*each)).id not in loaded]
            agents |= self._load_agents(session, others)
            everything = [*rows, *others]
        places = session.execute(_PLACES.where(Dataset.organization_id.in_(readers)))
        datasets = [
            DatasetPlace(place.id, place.organization_id, place.job_id, _get_table(place), place.logical_path)
            for place in places
        ]
        paths = [_make_paths(row, self._get_plan(row, agents)) for row in everything]
        return everything, TableWriters(paths, datasets)

    def _build(
        self,
        row: _JobRow,
        agents: Mapping[str, _AgentRow],
        lineage: Lineage,
        keys: Mapping[str, JobKey],
        names: Mapping[str, str],
        everything: Sequence[_JobRow],
        split: Mapping[str, Partitions],
        sources: JobSources,
    ) -> JobOutline:
        agent = agents.get(row.agent_id) if row.agent_id else None
        pipeline = self._plans[agent.id] if agent else None
        plan = pipeline.outline if pipeline else PlanOutline()
        partitions = split.get(row.id, Partitions())
        others = [each for each in lineage.inputs if each in split and split[each].scheme != partitions.scheme]
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
            key=keys[row.id],
            steps=plan.steps,
            inputs=tuple(keys[each] for each in lineage.inputs),
            checks=plan.checks,
            columns=(*plan.columns, *((name.lower(), "string") for name in partitions.parameters)),
            has_open_columns=plan.has_open_columns,
            agent_id=agent and agent.id,
            agent_name=agent and agent.name,
            agent_revision=pipeline and pipeline.revision,
            pipeline_yaml=pipeline and pipeline.pipeline_yaml,
            parameters=outline_parameters(
                plan.parameters, row.parameters, row.project_parameters, partitions.parameters
            ),
            kinds=plan.kinds,
            tags=(*row.tags.items(), *((f"{POOL_TAG}/{name}", "") for name in row.pools)),
            owners=tuple(row.owners),
            sources=sources.sources,
            lineage=(*sources.columns, *(ColumnOutline(each.lower(), DESCRIPTION) for each in partitions.parameters)),
            max_age=row.freshness.get("maxAge"),
            on_new_input=row.trigger.get("onNewInput", False),
            notes=(*(_describe_dropped(names[each]) for each in lineage.dropped), *_describe_unknown(row, everything)),
            obstacle=_find_obstacle(row, agent, pipeline),
            partitions=partitions,
            whole_inputs=tuple(keys[each] for each in others),
        )


def find_cycle_warnings(
    session: Session, organization_id: str, *, job_ids: Collection[str] = (), agent_ids: Collection[str] = ()
) -> list[str]:
    """Return a sentence for every cycle that these jobs of an organization, and those of these agents, are in."""
    query = select(Job.id).where(Job.organization_id == organization_id)
    found = session.scalars(query.where(Job.id.in_(job_ids) | Job.agent_id.in_(agent_ids)))
    return [_describe_cycle(cycle) for cycle in OutlineLoader().find_cycles(session, found.all())]


def _describe_cycle(names: Sequence[str]) -> str:
    listed = ", which reads that of ".join(f"'{each}'" for each in (*names[1:], names[0]))
    return (
        f"The job '{names[0]}' reads the table of {listed}: each reads what the other has published before. "
        "One of these inputs is left out of the lineage."
    )


def store_missing_outlines(session: Session, loader: OutlineLoader) -> int:
    """Store the outlines that the loader had to compute, because an older version wrote the agents."""
    missing = loader.list_missing()
    for agent_id, revision, outline in missing:
        unchanged = (Agent.id == agent_id, Agent.revision == revision)
        values = {"outline": dump_outline(outline), "updated_at": Agent.updated_at}
        execute_update(session, update(Agent).where(*unchanged).values(values))
    return len(missing)


def _select_jobs(session: Session, job_ids: Collection[str] | None) -> Sequence[_JobRow]:
    if job_ids is None:
        return [_JobRow(*row) for row in session.execute(_ROWS)]
    chunks = _split(sorted(job_ids))
    return [_JobRow(*row) for chunk in chunks for row in session.execute(_ROWS.where(Job.id.in_(chunk)))]


def _split(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[start : start + _CHUNK] for start in range(0, len(ids), _CHUNK))


def _make_key(row: _JobRow, prefixed: bool) -> JobKey:
    slugs = (row.project_slug, row.slug)
    return (row.organization_slug, *slugs) if prefixed else slugs


def _make_paths(row: _JobRow, plan: PlanOutline) -> JobPaths:
    values = _get_values(row)

    def resolve(paths: Iterable[str]) -> tuple[str, ...]:
        found = (resolve_path(path, values, row.project_slug) for path in paths)
        return tuple(path for path in found if path is not None)

    named = (resolve_name(name, values, row.project_slug) for name in plan.tables)
    output = () if plan.output_path is None else (plan.output_path,)
    return JobPaths(
        job_id=row.id,
        name=row.name,
        organization_id=row.organization_id,
        depends_on=tuple(row.depends_on),
        table=f"{SCHEME}{row.project_slug}/{row.slug}",
        input_dataset_id=row.input_dataset_id,
        reads=resolve(plan.reads),
        writes=resolve((*plan.saves, *output)),
        named=tuple(each for each in named if each is not None),
    )


def _get_values(row: _JobRow) -> Mapping[str, object]:
    return {**row.project_parameters, **row.parameters}


def _describe_dropped(name: str) -> str:
    return (
        f"It also comes after '{name}', which depends on this job: that input is left out of the lineage, "
        "because assets cannot depend on each other in a circle."
    )


def _describe_unknown(row: _JobRow, everything: Sequence[_JobRow]) -> list[str]:
    if not row.depends_on:
        return []
    known = {each.name for each in everything if each.project_id == row.project_id}
    return [
        f"It depends on '{each}', which is no job of its project any more."
        for each in row.depends_on
        if each not in known
    ]


def _get_table(dataset: Any) -> str:
    return f"{SCHEME}{dataset.schema_slug}/{dataset.slug}"


def _find_obstacle(row: _JobRow, agent: _AgentRow | None, pipeline: _AgentPlan | None) -> str | None:
    if not row.project_enabled:
        return DISABLED_PROJECT
    if not row.enabled:
        return DISABLED_JOB
    if agent is None or pipeline is None:
        return NO_AGENT
    if not agent.enabled:
        return DISABLED_AGENT
    if pipeline.pipeline_yaml is None:
        return PYTHON_AGENT if pipeline.has_code else NO_PIPELINE
    return pipeline.outline.fault


@lru_cache(1000)
def _outline(text: str) -> PlanOutline:
    return outline_pipeline(text)
