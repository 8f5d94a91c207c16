"""The cron jobs of one organization and their calls."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from core.definitions.cron_jobs.models import CronJobCreate, CronJobUpdate
from core.definitions.cron_jobs.secret import load_secret
from core.definitions.schedules.cron import parse_cron
from core.errors import BadInput
from core.infra.encryption import KeyRing
from core.infra.http_client import check_target_url
from core.infra.preconditions import check_etag
from core.infra.repository import Repository, lock_organization
from core.infra.settings import Settings
from core.infra.validation import is_storable
from core.tables import CronJob, CronJobCall, Job, now

MAX_CRON_JOBS = 1000
SHOWN_CALLS = 20


class CronJobRepository(Repository[CronJob]):
    """The cron jobs of one organization, by namespace and name."""

    row = CronJob
    noun = "cron job"

    def create(self, settings: Settings, key_ring: KeyRing, new: CronJobCreate) -> CronJob:
        """Store a cron job; raise BadInput when its name is taken, or when it could not be fired."""
        columns = new.to_columns()
        if "secret_name" in columns:
            load_secret(self.session, self.organization_id, columns["secret_name"], columns["secret_key"], key_ring)
        cron_job = self.insert(settings, columns)
        return self._plan(cron_job)

    def update(
        self,
        settings: Settings,
        key_ring: KeyRing,
        name: str,
        namespace: str,
        changes: CronJobUpdate,
        if_match: Collection[str],
    ) -> CronJob:
        """Change a cron job; raise BadInput when it could not be fired any more, or PreconditionFailed."""
        cron_job, columns = self.apply(settings, name, namespace, changes, if_match)
        if "secret_name" in columns:
            load_secret(self.session, self.organization_id, columns["secret_name"], columns["secret_key"], key_ring)
        return self._plan(cron_job)

    def apply(
        self, settings: Settings, name: str, namespace: str, changes: CronJobUpdate, if_match: Collection[str]
    ) -> tuple[CronJob, dict[str, Any]]:
        """Change the row of a cron job that the service does not fire, and return its columns as they are set."""
        lock_organization(self.session, self.organization_id)
        cron_job = self.get(name, namespace)
        check_etag(cron_job, if_match)
        columns = _merge(cron_job, changes).to_columns()
        if columns["url"] != cron_job.url:
            columns["url"] = check_target_url(settings, columns["url"], "webhookUrl")
        for field in CronJobUpdate.model_fields.keys() & CronJob.__table__.columns.keys():
            setattr(cron_job, field, columns.get(field))
        cron_job.url = columns["url"]
        self.session.flush()
        return cron_job, columns

    def _plan(self, cron_job: CronJob) -> CronJob:
        """Set the tick that the service fires next."""
        ticks = parse_cron(cron_job.schedule).iterate(now(), cron_job.timezone) if cron_job.enabled else iter(())
        cron_job.next_tick_at = next(ticks, None)
        self.session.flush()
        return cron_job

    def insert(self, settings: Settings, columns: dict[str, Any]) -> CronJob:
        """Store a cron job that the service does not fire; raise BadInput when its address may not be called."""
        columns["url"] = check_target_url(settings, columns["url"], "webhookUrl")
        lock_organization(self.session, self.organization_id)
        self._check_name_is_free(columns["name"], columns["namespace"])
        count = select(func.count()).where(CronJob.organization_id == self.organization_id)
        if (self.session.scalar(count) or 0) >= MAX_CRON_JOBS:
            sentence = f"This organization has {MAX_CRON_JOBS} cron jobs, which is the limit. Delete one first."
            raise BadInput(sentence, code="cron-job-limit")
        cron_job = CronJob(organization_id=self.organization_id, **columns)
        self.session.add(cron_job)
        self.session.flush()
        return cron_job

    def list(self, namespace: str, *, limit: int | None = None, after: str | None = None) -> Sequence[CronJob]:
        if not is_storable(namespace):
            return ()
        return self._fetch_page(self._select().where(CronJob.namespace == namespace), limit, after)

    def get(self, name: str, namespace: str) -> CronJob:
        if not is_storable(name + namespace):
            raise self._not_found("name")
        query = self._select().where(CronJob.namespace == namespace, CronJob.name == name)
        return self._fetch_one(query, "name")

    def list_last_calls(self, cron_job: CronJob) -> Sequence[CronJobCall]:
        """Return the calls of the last ticks, newest first."""
        query = select(CronJobCall).where(CronJobCall.cron_job_id == cron_job.id)
        return self.session.scalars(query.order_by(CronJobCall.tick_at.desc()).limit(SHOWN_CALLS)).all()

    def delete(self, name: str, namespace: str) -> None:
        """Delete the cron job with its calls."""
        self.session.delete(self.get(name, namespace))
        self.session.flush()

    def _check_name_is_free(self, name: str, namespace: str) -> None:
        if self.session.scalar(self._select().where(CronJob.namespace == namespace, CronJob.name == name)):
            sentence = f"The namespace '{namespace}' has a cron job with this name already. Delete it first."
            raise BadInput(sentence, code="name-taken", path="name")


def _merge(cron_job: CronJob, changes: CronJobUpdate) -> CronJobCreate:
    """Return the cron job with the changes, as it would be created."""
    given = changes.model_dump(exclude_none=True)
    schedule = given.pop("schedule", "") or given.pop("cron_schedule", "") or cron_job.schedule
    if given.get("secret_name") == "":
        given["secret_key"] = ""  # a field of the credential that goes
    known = CronJobCreate.model_fields.keys() & CronJob.__table__.columns.keys()
    stored = {field: getattr(cron_job, field) for field in known} | {"webhook_url": cron_job.url}
    return CronJobCreate.model_validate(stored | given | {"schedule": schedule})


def delete_cron_jobs_of_project(session: Session, organization_id: str, project_id: str) -> None:
    """Delete the organization's cron jobs that name this project or one of its jobs."""
    jobs = select(Job.id).where(Job.project_id == project_id)
    _delete(session, organization_id, or_(CronJob.project_id == project_id, CronJob.job_id.in_(jobs)))


def delete_cron_jobs_of_job(session: Session, organization_id: str, job_id: str) -> None:
    """Delete the organization's cron jobs that name this job."""
    _delete(session, organization_id, CronJob.job_id == job_id)


def _delete(session: Session, organization_id: str, condition: ColumnElement[bool]) -> None:
    for cron_job in session.scalars(select(CronJob).where(CronJob.organization_id == organization_id, condition)):
        session.delete(cron_job)
