"""The cron scheduler of one machine: cron jobs are rows, which Dagster fires and the dispatcher calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.definitions.cron_jobs.repository import CronJobRepository
from core.definitions.cron_jobs.scheduler import DEFAULT_NAMESPACE, CronJobStatus, CronScheduler
from core.definitions.identity.api_keys import Identity
from core.definitions.schedules.cron import parse_cron
from core.infra.database import Database
from core.infra.encryption import KeyRing
from core.infra.settings import Settings
from core.tables import CronJob, CronJobCall, now


class EmbeddedCronScheduler:
    """Implements CronScheduler with the metadata database."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database

    def create(self, caller: Identity, values: Mapping[str, Any], key_ring: KeyRing) -> CronJobStatus:
        with self._database.write() as session:
            cron_jobs = CronJobRepository(session, caller.organization_id)
            return _build_status(cron_jobs.create(self._settings, key_ring, values))

    def list(
        self,
        caller: Identity,
        namespace: str = DEFAULT_NAMESPACE,
        *,
        limit: int | None = None,
        after: str | None = None,
    ) -> Sequence[CronJobStatus]:
        with self._database.read() as session:
            rows = CronJobRepository(session, caller.organization_id).list(namespace, limit=limit, after=after)
            return [_build_status(row) for row in rows]

    def get(self, caller: Identity, name: str, namespace: str = DEFAULT_NAMESPACE) -> CronJobStatus:
        with self._database.read() as session:
            cron_jobs = CronJobRepository(session, caller.organization_id)
            cron_job = cron_jobs.get(name, namespace)
            return _build_status(cron_job, cron_jobs.list_last_calls(cron_job))

    def delete(self, caller: Identity, name: str, namespace: str = DEFAULT_NAMESPACE) -> None:
        with self._database.write() as session:
            CronJobRepository(session, caller.organization_id).delete(name, namespace)


def open_cron_scheduler(settings: Settings, database: Database) -> CronScheduler:
    return EmbeddedCronScheduler(settings, database)


def _build_status(cron_job: CronJob, calls: Sequence[CronJobCall] = ()) -> CronJobStatus:
    following = parse_cron(cron_job.schedule).list_next(now(), cron_job.timezone, 1)
    return CronJobStatus(cron_job, following[0] if following else None, calls)
