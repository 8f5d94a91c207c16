"""Jobs: an agent's pipeline in a project, with the datasets it reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Dialect, RowMapping, Select, String, TypeDecorator, bindparam, select, type_coerce
from sqlalchemy.orm import Session

from core.agents.repository import AgentRepository
from core.credentials.repository import Credentials
from core.datasets.repository import DatasetRepository
from core.errors import BadInput, Detail, NotFound
from core.executions.slots import hold_project
from core.executions.states import State
from core.executions.transitions import cancel_all
from core.infra.repository import Repository, ids_where, lock_organization, validate_fields
from core.infra.slugs import unique_slug
from core.infra.validation import storable
from core.projects.repository import ProjectRepository
from core.tables import Execution, Job, Task


class _Shown(TypeDecorator[str]):
    """The state of a job's newest execution, as answers show it; PENDING before the first."""

    impl = String
    cache_ok = True

    def process_result_value(self, value: str | None, dialect: Dialect) -> str:
        return State(value or State.PENDING).shown


ID = (
    Job.organization_id == bindparam("organization_id"),
    Job.project_id == bindparam("project_id"),
    Job.id == bindparam("id"),
)
BY_ID = select(Job).where(*ID)
NEWEST_STATE = select(Execution.state).where(Execution.id == Job.latest_execution_id).scalar_subquery()
SHOWN = select(
    *Job.__table__.c,
    ids_where(Task.id, Task.job_id == Job.id).label("task_ids"),
    type_coerce(NEWEST_STATE, _Shown).label("execution_status"),
)


class JobRepository(Repository[Job]):
    """`viewer_key_id` lets no job take an agent in a private category of another key."""

    row = Job
    noun = "job"
    shown = SHOWN
    fields = frozenset(
        {
            "name",
            "description",
            "agent_id",
            "input_dataset_id",
            "cloud_credential_id",
            "cloud_credential_ids",
            "parameters",
            "scheduled_time",
            "enabled",
        }
    )

    def __init__(self, session: Session, organization_id: str, *, viewer_key_id: str | None = None) -> None:
        super().__init__(session, organization_id)
        self._viewer_key_id = viewer_key_id

    def create(self, project_id: str, values: Mapping[str, Any]) -> Job:
        """Raises NotFound for the project, BadInput without a name or with an unknown agent, dataset or credential."""
        project = ProjectRepository(self.session, self.organization_id).get(project_id)
        job = self.new(project.id, self._checked(values))
        lock_organization(self.session, self.organization_id)
        taken = select(Job.slug).where(Job.project_id == project.id)
        job.slug = unique_slug(job.name, self.session.scalars(taken))
        self.session.add(job)
        self.session.flush()
        return job

    def new(self, project_id: str, known: Mapping[str, Any]) -> Job:
        """One with fields that `checked` has let through, not stored yet, without a slug; BadInput without a name."""
        if "name" not in known:
            raise BadInput("A job needs a 'name'.", [Detail("name", "is missing")])
        return Job(organization_id=self.organization_id, project_id=project_id, **known)

    def list(self, project_id: str, *, limit: int | None = None, after: str | None = None) -> Sequence[Job]:
        ProjectRepository(self.session, self.organization_id).get(project_id)
        return self._fetch_page(self._in(project_id), limit, after)

    def records(self, project_id: str, *, limit: int | None = None, after: str | None = None) -> Sequence[RowMapping]:
        ProjectRepository(self.session, self.organization_id).get(project_id)
        return self._records(Job.project_id == project_id, limit=limit, after=after)

    def get(self, project_id: str, job_id: str) -> Job:
        if not storable(project_id + job_id):
            raise self._not_found()
        values = {"organization_id": self.organization_id, "project_id": project_id, "id": job_id}
        return self._found(BY_ID, values)

    def update(self, project_id: str, job_id: str, changes: Mapping[str, Any]) -> Job:
        """Merges; the slug stays, so that SQL names survive a rename."""
        job = self.get(project_id, job_id)
        return self._apply(job, self._checked(changes, job))

    def delete(self, project_id: str, job_id: str) -> None:
        """Removes the job with its executions and datasets; what still runs is cancelled first."""
        job = self.get(project_id, job_id)
        cancel_all(self.session, Execution.job_id == job.id, "The job was deleted.")
        self.session.delete(job)
        self.session.flush()

    def stop(self, project_id: str, job_id: str) -> Job:
        """Cancels all executions of the job that have not ended."""
        job = self.get(project_id, job_id)
        cancel_all(self.session, Execution.job_id == job.id, "The job was stopped.")
        return job

    def lock(self, row: Job, if_match: Collection[str] = ()) -> Job:
        """Lock the job, and its project first: states of executions change under the project's lock."""
        lock_organization(self.session, self.organization_id)
        hold_project(self.session, row.project_id)
        return super().lock(row, if_match)

    def newest_execution(self, job: Job) -> Execution | None:
        return self.session.get(Execution, job.latest_execution_id) if job.latest_execution_id else None

    def _in(self, project_id: str) -> Select[tuple[Job]]:
        return self._select().where(Job.project_id == project_id)

    def _checked(self, values: Mapping[str, Any], job: Job | None = None) -> dict[str, Any]:
        """What the job named already is let be: a record is sent back whole, also when it is gone or hidden."""
        known = validate_fields(values, self.fields)
        before = (job.cloud_credential_id, *job.cloud_credential_ids) if job else ()
        if job is None or known.get("agent_id") != job.agent_id:
            agents = AgentRepository(self.session, self.organization_id, viewer_key_id=self._viewer_key_id)
            self._check_known(known, "agent_id", "agentId", agents.get)
        datasets = DatasetRepository(self.session, self.organization_id)
        self._check_known(known, "input_dataset_id", "inputDatasetId", datasets.get)
        credentials = Credentials(self.session, self.organization_id)
        for credential_id in set(known.get("cloud_credential_ids", ())).difference(before):
            self._check_known({"id": credential_id}, "id", "cloudCredentialIds", credentials.get)
        if known.get("cloud_credential_id") and known["cloud_credential_id"] not in before:
            self._check_known(known, "cloud_credential_id", "cloudCredentialId", credentials.get)
        return known

    def _check_known(self, known: Mapping[str, Any], field: str, path: str, get: Callable[[str], object]) -> None:
        try:
            if field in known:
                get(known[field])
        except NotFound as error:
            raise BadInput(error.sentence, [Detail(path, error.sentence)]) from error
