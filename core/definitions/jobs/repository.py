"""Jobs: an agent's pipeline in a project, with its parameters, input dataset and credentials."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, bindparam, func, select
from sqlalchemy.orm import Session

from core.definitions.agents.repository import AgentRepository
from core.definitions.credentials.repository import CredentialRepository
from core.definitions.cron_jobs.repository import delete_cron_jobs_of_job
from core.definitions.jobs.models import JobCreate, JobUpdate, compute_stale_at
from core.definitions.pools.repository import PoolRepository
from core.definitions.projects.repository import EndExecutions, ProjectRepository
from core.definitions.schedules.times import check_scheduled_time
from core.errors import BadInput, NotFound
from core.infra.database import Database
from core.infra.repository import Repository, aggregate_ids, lock_organization, lock_project
from core.infra.slugs import make_unique_slug
from core.infra.validation import is_storable
from core.tables import Dataset, DatasetVersion, Execution, Job, Project, Task, now
from core.tables.states import State
from pipelines.language.names import suggest
from pipelines.planning.check import REJECTED_COLUMNS

SHOWN_TASKS = 100
_TASK_IDS = aggregate_ids(Task.id, Task.job_id == Job.id, Job, SHOWN_TASKS)
_NEWEST_STATE = select(Execution.state).where(Execution.id == Job.latest_execution_id).scalar_subquery()
_BY_ID = select(*Job.__table__.columns, _TASK_IDS.label("task_ids"), _NEWEST_STATE.label("newest_state")).where(
    Job.organization_id == bindparam("organization_id"),
    Job.project_id == bindparam("project_id"),
    Job.id == bindparam("id"),
)


@dataclass(frozen=True, slots=True)
class JobWithTasks:
    """A job, the ids of its newest tasks in order, and the state of its newest execution, None before the first."""

    job: Job
    task_ids: Sequence[str]
    newest_state: str | None

    @property
    def execution_state(self) -> State:
        return State(self.newest_state or State.PENDING)


class JobRepository(Repository[Job]):
    """The jobs of one organization. With a `viewer_key_id`, agents in private categories of other keys are unknown."""

    row = Job
    noun = "job"

    def __init__(self, session: Session, organization_id: str, *, viewer_key_id: str | None = None) -> None:
        super().__init__(session, organization_id)
        self._viewer_key_id = viewer_key_id

    @classmethod
    def fetch(cls, database: Database, organization_id: str, project_id: str, job_id: str) -> JobWithTasks:
        """Read one job without a session."""
        ids = {"organization_id": organization_id, "project_id": project_id, "id": job_id}
        return JobWithTasks(*cls._fetch(database, _BY_ID, **ids))

    def create(self, project_id: str, new: JobCreate) -> Job:
        """Store a new job.

        Raise NotFound for an unknown project, BadInput for an unknown agent, dataset or credential.
        """
        project = ProjectRepository(self.session, self.organization_id).get(project_id)
        job = self.build(project.id, new)
        self._check(new)
        lock_organization(self.session, self.organization_id)
        used = select(Job.slug).where(Job.project_id == project.id)
        job.slug = make_unique_slug(job.name, self.session.scalars(used))
        self.session.add(job)
        self.session.flush()
        return job

    def build(self, project_id: str, new: JobCreate) -> Job:
        """Return a job that is not stored yet, has no slug, and whose references are not checked."""
        job = Job(organization_id=self.organization_id, project_id=project_id, **new.to_columns())
        _check_trigger(job.trigger or {}, job.partitions or [])
        job.stale_at = compute_stale_at(new.freshness or {}, now())
        return job

    def list(self, project_id: str, *, limit: int | None = None, after: str | None = None) -> Sequence[Job]:
        """Raise NotFound for an unknown project."""
        ProjectRepository(self.session, self.organization_id).get(project_id)
        return self._fetch_page(self._select().where(Job.project_id == project_id), limit, after)

    def list_with_tasks(
        self, project_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[JobWithTasks]:
        """Raise NotFound for an unknown project."""
        ProjectRepository(self.session, self.organization_id).get(project_id)
        query = self._limit_to_page(self._select_with_tasks().where(Job.project_id == project_id), limit, after)
        return [JobWithTasks(*row) for row in self.session.execute(query)]

    def get(self, project_id: str, job_id: str) -> Job:
        if not is_storable(project_id + job_id):
            raise self._not_found()
        return self._fetch_one(self._select().where(Job.project_id == project_id, Job.id == job_id))

    def find_of_agent(self, agent_id: str) -> Job | None:
        """Return the oldest job that runs an agent."""
        return self.session.scalars(self._select().where(Job.agent_id == agent_id).order_by(Job.id).limit(1)).first()

    def get_with_tasks(self, project_id: str, job_id: str) -> JobWithTasks:
        if not is_storable(project_id + job_id):
            raise self._not_found()
        query = self._select_with_tasks().where(Job.project_id == project_id, Job.id == job_id)
        row = self.session.execute(query).one_or_none()
        if row is None:
            raise self._not_found()
        return JobWithTasks(*row)

    def get_newest_execution(self, project_id: str, job_id: str) -> Execution | None:
        job = self.get(project_id, job_id)
        return self.session.get(Execution, job.latest_execution_id) if job.latest_execution_id else None

    def update(self, project_id: str, job_id: str, changes: JobUpdate) -> Job:
        """Apply the changed fields. The slug stays, so a rename does not change names in SQL."""
        job = self.get(project_id, job_id)
        columns = changes.to_columns()
        self._check(changes, job)
        _check_trigger(columns.get("trigger", job.trigger), columns.get("partitions", job.partitions))
        if "name" in columns and columns["name"] != job.name:
            self._rename_dependency(job, columns["name"])
        if columns.get("freshness", job.freshness) != job.freshness:
            job.stale_at = compute_stale_at(columns["freshness"], self._find_completion(job) or now())
        return self._apply(job, columns)

    def _find_completion(self, job: Job) -> datetime | None:
        """Return when the job last completed, also without a difference; else when its table's version is from."""
        completed = (Execution.job_id == job.id, Execution.state == State.COMPLETED, Execution.publishes)
        if (at := self.session.scalar(select(func.max(Execution.completed_at)).where(*completed))) is not None:
            return at
        query = select(DatasetVersion.created_at).join(Dataset, Dataset.current_version_id == DatasetVersion.id)
        return self.session.scalar(query.where(Dataset.id == job.output_dataset_id))

    def _rename_dependency(self, job: Job, name: str) -> None:
        """Let the jobs of the project that depend on the job go on to do so."""
        for other in self.session.scalars(self._select().where(Job.project_id == job.project_id, Job.id != job.id)):
            if job.name in other.depends_on:
                other.depends_on = [name if each == job.name else each for each in other.depends_on]

    def check_dependencies(self, job: Job) -> None:
        """Raise BadInput for a job that depends on itself, or on a name that no job of its project has."""
        if not job.depends_on:
            return
        query = select(Job.name).where(Job.project_id == job.project_id, Job.id != job.id)
        names = set(self.session.scalars(query))
        for name in job.depends_on:
            if name not in names:
                raise BadInput(
                    f"The job '{job.name}' cannot depend on '{name}': its project has no other job of this name.",
                    path="dependsOn",
                    code="not-found",
                )

    def check_pools(self, job: Job) -> None:
        """Raise BadInput for a pool that the organization does not have; the caller has locked the organization."""
        if not job.pools:
            return
        names = {pool.name for pool in PoolRepository(self.session, self.organization_id).list()}
        for name in job.pools:
            if name not in names:
                similar = suggest(name, names)
                hint = f" Did you mean {' or '.join(similar)}?" if similar else " Create it with its limit first."
                raise BadInput(
                    f"The job '{job.name}' names the pool '{name}', which does not exist.{hint}",
                    path="pools",
                    code="not-found",
                )

    def delete(self, project_id: str, job_id: str, end_executions: EndExecutions) -> None:
        """End the job's executions, then delete it with its executions, datasets and cron jobs.

        The rows that its checks have set aside are in a dataset of the project, which goes with it.
        """
        job = self.get(project_id, job_id)
        delete_cron_jobs_of_job(self.session, self.organization_id, job.id)
        end_executions(self.session, Execution.job_id == job.id, "The job was deleted.")
        if (rejected := self._find_rejected(job)) is not None:
            self.session.delete(rejected)
        self.session.delete(job)
        self.session.flush()

    def _find_rejected(self, job: Job) -> Dataset | None:
        """Return the dataset of the rows that the job's checks have set aside; one of that name may be another's."""
        query = select(Dataset, DatasetVersion.columns).join(Project, Project.id == Dataset.project_id)
        query = query.join(DatasetVersion, DatasetVersion.id == Dataset.current_version_id)
        query = query.where(Dataset.organization_id == self.organization_id, Project.id == job.project_id)
        query = query.where(Dataset.schema_slug == Project.slug, Dataset.slug == f"{job.slug}_rejected")
        found = self.session.execute(query.where(Dataset.job_id.is_(None))).first()
        names = {column["name"] for column in found[1]} if found else set[str]()
        return found[0] if found and names.issuperset(REJECTED_COLUMNS) else None

    def lock(self, row: Job, if_match: Collection[str] = ()) -> Job:
        """Lock the job, and its project first: states of executions change under the project's lock."""
        lock_organization(self.session, self.organization_id)
        lock_project(self.session, row.project_id)
        return super().lock(row, if_match)

    def _select_with_tasks(self) -> Select[Any]:
        return self._select().add_columns(_TASK_IDS, _NEWEST_STATE)

    def _check(self, changes: JobUpdate, job: Job | None = None) -> None:
        """Raise BadInput for unknown agents, datasets and credentials, and for a time in the past.

        References that the job has already are not checked again: clients send whole records back, also after a
        referenced record was deleted or hidden.
        """
        if changes.scheduled_time:
            check_scheduled_time(changes.scheduled_time, job.scheduled_time if job else None)
        if changes.agent_id and (job is None or changes.agent_id != job.agent_id):
            agents = AgentRepository(self.session, self.organization_id, viewer_key_id=self._viewer_key_id)
            _check_reference("agentId", changes.agent_id, agents.get)
        if changes.input_dataset_id and (job is None or changes.input_dataset_id != job.input_dataset_id):
            _check_reference("inputDatasetId", changes.input_dataset_id, self._check_dataset)
        before = (job.cloud_credential_id, *job.cloud_credential_ids) if job else ()
        credentials = CredentialRepository(self.session, self.organization_id)
        for credential_id in set(changes.cloud_credential_ids or ()).difference(before):
            _check_reference("cloudCredentialIds", credential_id, credentials.get)
        if changes.cloud_credential_id and changes.cloud_credential_id not in before:
            _check_reference("cloudCredentialId", changes.cloud_credential_id, credentials.get)

    def _check_dataset(self, dataset_id: str) -> None:
        query = select(Dataset.id).where(Dataset.organization_id == self.organization_id, Dataset.id == dataset_id)
        if not is_storable(dataset_id) or self.session.scalar(query) is None:
            raise NotFound("There is no dataset with this id.")


def _check_trigger(trigger: Mapping[str, Any], partitions: Sequence[Any]) -> None:
    if trigger.get("onNewInput") and partitions:
        sentence = "A new input does not tell which of its partitions a job should make: leave out 'onNewInput'."
        raise BadInput(sentence, path="trigger", code="conflicting-arguments")


def _check_reference(path: str, row_id: str, get: Callable[[str], object]) -> None:
    try:
        get(row_id)
    except NotFound as error:
        raise BadInput(error.sentence, path=path, code="not-found") from error
