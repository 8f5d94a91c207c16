"""Executions of jobs whose trigger is `onNewInput`: when the datasets that they read have new versions.

The versions that a job has read are those which its newest execution froze, unless that was a trial of a job that
publishes: nothing else is stored, and a crash between two steps changes nothing. A job waits while one that it reads
from is executed: it reads what all of them have published, once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from core.data.datasets.repository import SCHEME
from core.definitions.jobs.keys import find_job_ids
from core.errors import DailyLimit, SpindleError
from core.infra.database import Database
from core.infra.settings import Settings
from core.lifecycle.executions.transitions import lock_project
from core.lifecycle.outlines.outlines import JobOutline, OutlineLoader
from core.lifecycle.outlines.sources import UPLOADED
from core.lifecycle.submission.planning import SubmitRequest, plan_execution
from core.lifecycle.submission.submit import accept_execution
from core.tables import Dataset, DatasetVersion, Execution, Job, Project
from core.tables.states import TERMINAL

TRIGGER = "newInput"
_PINNED = re.compile(r"@\d+$")  # the name of an input with a version that the pipeline chooses

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Due:
    """A job that has not read the newest versions of its inputs; `before` is its newest execution."""

    outline: JobOutline
    before: str | None
    versions: frozenset[str]


class NewInputs:
    """Executes jobs on new inputs; it keeps plans of pipelines, and what could not be executed, between its calls."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._loader = OutlineLoader()
        self._refused: dict[str, frozenset[str]] = {}

    def execute_due(self) -> None:
        """Execute the jobs that are due. One that cannot be executed is logged, once for the same versions."""
        with self._database.read() as session:
            found = _list_due(session, self._loader)
        due = {each.outline.key: each for each in found if self._refused.get(each.outline.job_id) != each.versions}
        for each in due.values():
            if not due.keys().isdisjoint(each.outline.inputs):  # which are executed first
                continue
            try:
                _execute(self._database, self._settings, each)
            except SpindleError as error:
                if not error.retryable or isinstance(error, DailyLimit):
                    self._refused[each.outline.job_id] = each.versions
                    log.warning("not executed on new input", job_id=each.outline.job_id, reason=error.sentence)


def _list_due(session: Session, loader: OutlineLoader) -> list[_Due]:
    running = select(Execution.id).where(Execution.job_id == Job.id, Execution.state.not_in(TERMINAL))
    query = select(Job).join(Project, Project.id == Job.project_id).where(Job.enabled, Project.enabled)
    query = query.where(Job.trigger["onNewInput"].as_boolean(), ~running.exists())
    jobs = {job.id: job for job in session.scalars(query)}
    if not jobs:
        return []
    outlines = [each for each in loader.load(session, jobs) if each.obstacle is None]
    found = ((each, _find_new(session, jobs[each.job_id], each)) for each in outlines)
    return [_Due(outline, jobs[outline.job_id].latest_execution_id, new) for outline, new in found if new]


def _find_new(session: Session, job: Job, outline: JobOutline) -> frozenset[str]:
    """Return the versions that the job has not read; empty while a job before it is executed, or has no table yet."""
    upstream = find_job_ids(session, outline.inputs)
    running = select(Execution.id).where(Execution.job_id.in_(upstream), Execution.state.not_in(TERMINAL))
    if upstream and session.scalar(running.limit(1)) is not None:
        return frozenset()
    own = select(Execution).where(Execution.job_id == job.id)
    own = own.where(Execution.publishes) if job.publish else own
    latest = session.scalar(own.order_by(Execution.id.desc()).limit(1))
    frozen = [(name, each) for name, each in (latest.inputs.items() if latest else ()) if each.is_published]
    read = {each.dataset: each.version for name, each in frozen if not _PINNED.search(name)}
    pinned = {each.dataset for _, each in frozen} - read.keys()
    outputs = session.scalars(select(Job.output_dataset_id).where(Job.id.in_(upstream))).all() if upstream else ()
    uploads = _list_uploads(session, outline)
    wanted = {*read, *filter(None, (*outputs, job.input_dataset_id))} - pinned
    current = _load_current(session, job, upstream, {*wanted, *filter(None, uploads)} - pinned)
    if latest is None:
        is_whole = None not in (*outputs, *uploads) and wanted <= current.keys()
        return frozenset(version.id for version in current.values()) if is_whole else frozenset()
    return frozenset(
        version.id
        for dataset_id, version in current.items()
        if (version.id != read[dataset_id] if dataset_id in read else version.created_at > latest.created_at)
    )


def _list_uploads(session: Session, outline: JobOutline) -> Sequence[str | None]:
    """Return the ids of the datasets that the job reads and no job writes; None for one without a version yet."""
    addresses = [each.address for each in outline.sources if each.kind == UPLOADED]
    if not addresses:
        return []
    table = tuple_(Dataset.schema_slug, Dataset.slug)
    parts = (each.removeprefix(SCHEME).partition("/") for each in addresses)
    names = [(schema, slug) for schema, _, slug in parts]
    published = (Dataset.organization_id == outline.organization_id, Dataset.current_version_id.is_not(None))
    query = select(Dataset.schema_slug, Dataset.slug, Dataset.id).where(*published, table.in_(names))
    found = {(schema, slug): dataset_id for schema, slug, dataset_id in session.execute(query).tuples()}
    return [found.get(each) for each in names]


def _load_current(
    session: Session, job: Job, upstream: Sequence[str], dataset_ids: set[str]
) -> Mapping[str, DatasetVersion]:
    """Return the current versions, without what the job itself or one that reads from it has written."""
    query = select(DatasetVersion, Execution.job_id).join(Dataset, Dataset.current_version_id == DatasetVersion.id)
    query = query.outerjoin(Execution, Execution.id == DatasetVersion.execution_id)
    query = query.where(Dataset.id.in_(dataset_ids), Dataset.organization_id == job.organization_id)
    return {
        version.dataset_id: version
        for version, writer in session.execute(query).tuples()
        if not writer or writer in upstream  # without an execution it was uploaded
    }


def _execute(database: Database, settings: Settings, due: _Due) -> None:
    """Accept the execution, unless the job has begun another one since its inputs were compared."""
    outline = due.outline
    request = SubmitRequest(
        organization_id=outline.organization_id,
        project_id=outline.project_id,
        job_id=outline.job_id,
        queue=True,
        trigger=TRIGGER,
    )
    with database.read() as session:
        planned = plan_execution(session, settings, request)
    with database.write() as session:
        lock_project(session, outline.project_id)
        if session.scalar(select(Job.latest_execution_id).where(Job.id == outline.job_id)) == due.before:
            accept_execution(session, planned)
