"""The cron scheduler of one machine: cron jobs are rows, which Dagster fires and the dispatcher calls."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy.orm import Session

from core.definitions.cron_jobs.models import DEFAULT_NAMESPACE, CronJobCreate, CronJobUpdate
from core.definitions.cron_jobs.repository import CronJobRepository
from core.definitions.cron_jobs.scheduler import CronJobStatus
from core.definitions.identity.api_keys import Identity
from core.definitions.schedules.cron import parse_cron
from core.infra.encryption import KeyRing
from core.infra.settings import Settings
from core.tables import CronJob, CronJobCall, now


class EmbeddedCronScheduler:
    """Implements CronScheduler with the metadata database."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def create(self, session: Session, caller: Identity, new: CronJobCreate, key_ring: KeyRing) -> CronJobStatus:
        cron_jobs = CronJobRepository(session, caller.organization_id)
        return build_status(cron_jobs.create(self._settings, key_ring, new))

    def get(self, session: Session, caller: Identity, name: str, namespace: str = DEFAULT_NAMESPACE) -> CronJobStatus:
        cron_jobs = CronJobRepository(session, caller.organization_id)
        cron_job = cron_jobs.get(name, namespace)
        return build_status(cron_job, cron_jobs.list_last_calls(cron_job))

    def update(
        self,
        session: Session,
        caller: Identity,
        name: str,
        changes: CronJobUpdate,
        key_ring: KeyRing,
        namespace: str = DEFAULT_NAMESPACE,
        if_match: Collection[str] = (),
    ) -> CronJobStatus:
        cron_jobs = CronJobRepository(session, caller.organization_id)
        return build_status(cron_jobs.update(self._settings, key_ring, name, namespace, changes, if_match))

    def delete(self, session: Session, caller: Identity, name: str, namespace: str = DEFAULT_NAMESPACE) -> None:
        CronJobRepository(session, caller.organization_id).delete(name, namespace)


def list_cron_jobs(
    session: Session,
    caller: Identity,
    namespace: str = DEFAULT_NAMESPACE,
    *,
    limit: int | None = None,
    after: str | None = None,
) -> Sequence[CronJobStatus]:
    """Return the cron jobs of a namespace, oldest first, as every scheduler has them."""
    rows = CronJobRepository(session, caller.organization_id).list(namespace, limit=limit, after=after)
    return [build_status(row) for row in rows]


def build_status(cron_job: CronJob, calls: Sequence[CronJobCall] = ()) -> CronJobStatus:
    following = parse_cron(cron_job.schedule).list_next(now(), cron_job.timezone, 1) if cron_job.enabled else ()
    return CronJobStatus(cron_job, following[0] if following else None, calls)
