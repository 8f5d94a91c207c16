"""The protocol `CronScheduler`: it stores and fires cron jobs. Callers get one from `open_cron_scheduler`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sqlalchemy.orm import Session

from core.definitions.cron_jobs.models import DEFAULT_NAMESPACE, CronJobCreate, CronJobUpdate
from core.definitions.identity.api_keys import Identity
from core.infra.encryption import KeyRing
from core.tables import CronJob, CronJobCall


@dataclass(frozen=True, slots=True)
class CronJobStatus:
    """A cron job, its next tick, and its last calls, newest first; a list of cron jobs leaves the calls out."""

    cron_job: CronJob
    next_tick_at: datetime | None
    calls: Sequence[CronJobCall] = ()


class CronScheduler(Protocol):
    """Every method works on the cron jobs of the caller's organization; others are unknown to it (NotFound)."""

    def create(self, session: Session, caller: Identity, new: CronJobCreate, key_ring: KeyRing) -> CronJobStatus:
        """Store a cron job, which fires from its next tick on. Raise BadInput where it could not be fired."""
        ...

    def get(
        self, session: Session, caller: Identity, name: str, namespace: str = DEFAULT_NAMESPACE
    ) -> CronJobStatus: ...

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
        """Change, pause or resume a cron job. Calls of earlier ticks that wait for another attempt are still made."""
        ...

    def delete(self, session: Session, caller: Identity, name: str, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Delete a cron job with its calls: those that wait for another attempt are not made."""
        ...
