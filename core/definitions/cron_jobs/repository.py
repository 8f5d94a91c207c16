"""The cron jobs of one organization and their calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic.alias_generators import to_camel
from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from core.definitions.cron_jobs.scheduler import DEFAULT_NAMESPACE
from core.definitions.cron_jobs.secret import load_secret, parse_field
from core.definitions.schedules.cron import parse_cron, parse_timezone
from core.errors import BadInput
from core.infra.encryption import KeyRing
from core.infra.http_client import check_target_url
from core.infra.repository import Repository, lock_organization, validate_fields
from core.infra.settings import Settings
from core.infra.validation import NAME_LENGTH, is_storable
from core.tables import CronJob, CronJobCall, Job

MAX_CRON_JOBS = 1000
MAX_TEXT_LENGTH = 2048
SHOWN_CALLS = 20
DEFAULT_TIMEZONE = "UTC"
REQUIRED = ("name", "schedule", "webhook_url")


class CronJobRepository(Repository[CronJob]):
    """The cron jobs of one organization, by namespace and name."""

    row = CronJob
    noun = "cron job"
    fields = frozenset(
        {
            *("name", "namespace", "schedule", "timezone", "webhook_url", "project_id", "job_id"),
            *("secret_name", "secret_key", "cluster_provider", "cluster_config_id", "image"),
        }
    )

    def create(self, settings: Settings, key_ring: KeyRing, values: Mapping[str, Any]) -> CronJob:
        """Store a cron job; raise BadInput when its name is taken, or when it could not be fired."""
        known = self._validate(settings, values)
        if "secret_name" in known:
            load_secret(self.session, self.organization_id, known["secret_name"], known["secret_key"], key_ring)
        lock_organization(self.session, self.organization_id)
        self._check_name_is_free(known["name"], known["namespace"])
        count = select(func.count()).where(CronJob.organization_id == self.organization_id)
        if (self.session.scalar(count) or 0) >= MAX_CRON_JOBS:
            sentence = f"This organization has {MAX_CRON_JOBS} cron jobs, which is the limit. Delete one first."
            raise BadInput(sentence, code="cron-job-limit")
        cron_job = CronJob(organization_id=self.organization_id, url=known.pop("webhook_url"), **known)
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

    def _validate(self, settings: Settings, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields with their defaults; an empty text is as absent."""
        given = {field: value for field, value in values.items() if value != ""}
        missing = [to_camel(field) for field in REQUIRED if given.get(field) is None]
        if missing:
            raise BadInput(f"A cron job needs a '{missing[0]}'.", code="missing-field", path=missing[0])
        known = validate_fields(given, self.fields)
        for field, value in known.items():
            longest = NAME_LENGTH if field == "namespace" else MAX_TEXT_LENGTH
            if len(value) > longest:
                raise BadInput(f"'{to_camel(field)}' is longer than {longest} characters.", path=to_camel(field))
        parse_cron(known["schedule"], "schedule")
        parse_timezone(known.setdefault("timezone", DEFAULT_TIMEZONE))
        known["webhook_url"] = check_target_url(settings, known["webhook_url"], "webhookUrl")
        known.setdefault("namespace", DEFAULT_NAMESPACE)
        return known | _validate_secret(known)

    def _check_name_is_free(self, name: str, namespace: str) -> None:
        if self.session.scalar(self._select().where(CronJob.namespace == namespace, CronJob.name == name)):
            sentence = f"The namespace '{namespace}' has a cron job with this name already. Delete it first."
            raise BadInput(sentence, code="name-taken", path="name")


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


def _validate_secret(known: Mapping[str, Any]) -> dict[str, str]:
    if "secret_name" in known:
        return {"secret_key": parse_field(known.get("secret_key"))}
    if "secret_key" in known:
        sentence = "'secretKey' is a field of the cloud credential that 'secretName' names, which is missing."
        raise BadInput(sentence, code="missing-field", path="secretName")
    return {}
