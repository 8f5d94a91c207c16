"""The one cleanup of an instance, in the background and by `spindle cleanup`: removal of what is kept for a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog
from sqlalchemy import select

from core.data.datasets.collector import FileCollector
from core.infra.background import OutageLog
from core.infra.cleanup import Cleanup
from core.infra.database import Database
from core.infra.installation import renew_token
from core.infra.settings import Settings
from core.infra.storage.protocol import Storage
from core.integrations.packages.service import delete_old_packages
from core.integrations.webhooks.deliver import delete_old_events
from core.lifecycle.executions.leftovers import delete_leftovers
from core.lifecycle.executions.outbox import delete_old_launches
from core.lifecycle.firing.cron_job_calls import delete_old_calls
from core.tables import Organization, now

ROUND_SECONDS = 60
SWEEP_SECONDS = 6 * 3600
RENEW_SECONDS = 3600  # a database that is restored from before the last of these is noticed
MESSAGES = {
    "events and deliveries": delete_old_events,
    "calls of cron jobs": delete_old_calls,
    "launches": delete_old_launches,
}

log = structlog.get_logger()


class Cleaner:
    """Runs in one process of an instance, which may be killed at any point: the next round continues.

    `delete_runs` deletes the runs of Dagster that have ended before a time.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        storage: Storage,
        delete_runs: Callable[[Cleanup, datetime], None],
    ) -> None:
        self._settings = settings
        self._database = database
        self._storage = storage
        self._delete_runs = delete_runs
        self._collector = FileCollector(settings, database, storage)

    def run(self, stop: threading.Event) -> None:
        outages, swept_at, renewed_at = OutageLog(), time.monotonic(), time.monotonic()
        while not stop.wait(ROUND_SECONDS):
            if time.monotonic() - renewed_at > RENEW_SECONDS and outages.run_step(self._renew_token):
                renewed_at = time.monotonic()
            outages.run_step(self.collect)
            outages.run_step(self._collector.maintain)
            if time.monotonic() - swept_at > SWEEP_SECONDS:
                swept_at = time.monotonic()
                outages.run_step(self.sweep)

    def collect(self) -> None:
        """Do what is due at a stored time."""
        cleanup = Cleanup()
        self._collector.collect(cleanup=cleanup)
        _log(cleanup)

    def sweep(self) -> None:
        """Remove all that is not kept any longer."""
        _log(self.clean_up())

    def clean_up(self, at: datetime | None = None, *, dry_run: bool = False) -> Cleanup:
        """Find what is not kept any longer, also by listing the storage, and remove it unless this is a dry run."""
        at, cleanup = at or now(), Cleanup(dry_run)
        retention = self._settings.retention
        self._collector.collect(at, cleanup)
        self._collector.sweep(at, cleanup)
        with self._database.read() as session:
            organizations = session.scalars(select(Organization.id)).all()
        oldest = at - timedelta(days=retention.message_days)
        for each in organizations:
            delete_leftovers(cleanup, self._database, self._storage, self._settings, each, at)
            delete_old_packages(cleanup, self._database, self._storage, each, oldest)
        for kind, delete_old in MESSAGES.items():
            with cleanup.write(self._database) as session:
                cleanup.count(kind, delete_old(session, oldest))
        self._delete_runs(cleanup, at - timedelta(days=retention.run_days))
        return cleanup

    def _renew_token(self) -> None:
        renew_token(self._settings, self._database, self._storage)


def _log(cleanup: Cleanup) -> None:
    for kind, removed in cleanup.removed.items():
        if removed.count:
            log.info("removed", kind=kind, count=removed.count, bytes=removed.bytes)
