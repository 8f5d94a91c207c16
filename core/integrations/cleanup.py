"""The one cleanup of an instance, in the background and by `spindle cleanup`: removal of what is kept for a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from core.data.datasets.collector import FileCollector
from core.data.datasets.versions import share_values
from core.definitions.identity.audit import delete_old_entries
from core.infra.background import OutageLog
from core.infra.cleanup import Cleanup
from core.infra.database import Database
from core.infra.installation import renew_token
from core.infra.settings import Settings
from core.infra.storage.protocol import Storage
from core.integrations.notifications.deliver import delete_old_notifications
from core.integrations.packages.service import delete_old_packages
from core.integrations.webhooks.deliver import delete_old_events
from core.lifecycle.executions.leftovers import delete_leftovers, remove_details
from core.lifecycle.executions.outbox import delete_old_launches
from core.lifecycle.firing.cron_job_calls import delete_old_calls
from core.tables import Organization, now

ROUND_SECONDS = 60
FIRST_SWEEP_SECONDS = 600
PAUSES = {
    "sweep": 6 * 3600.0,
    "_renew_token": 3600.0,  # a database that is restored from before the last of these is noticed
}
BATCH = 5_000
DeleteOld = Callable[[Session, datetime, int | None], int]
MESSAGES: Mapping[str, DeleteOld] = {
    "events and deliveries": delete_old_events,
    "notifications": delete_old_notifications,
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

    def run(self, stop: threading.Event, leads: Callable[[], bool]) -> None:
        """Work until `stop` is set, while this instance leads."""
        outages = OutageLog()
        due = {self._renew_token: 0.0, self.collect: 0.0, self._collector.maintain: 0.0}
        due[self.sweep] = time.monotonic() + FIRST_SWEEP_SECONDS
        while not stop.wait(ROUND_SECONDS):
            for step in [each for each, at in due.items() if leads() and time.monotonic() >= at]:
                try:
                    done = outages.run_step(step)
                except Exception:  # of one file or run: the other steps go on
                    log.exception("a step of the cleanup failed", step=step.__name__)
                    done = True
                if done:
                    due[step] = time.monotonic() + PAUSES.get(step.__name__, 0.0)

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
            self._delete_rows(cleanup, kind, delete_old, oldest)
        self._delete_rows(cleanup, "audit entries", delete_old_entries, at - timedelta(days=retention.audit_days))
        old = at - timedelta(days=retention.log_days)
        self._delete_rows(cleanup, "details of executions", remove_details, old)
        self._delete_rows(cleanup, "repeated columns of versions", share_values, old)
        self._delete_runs(cleanup, at - timedelta(days=retention.run_days))
        return cleanup

    def _delete_rows(self, cleanup: Cleanup, kind: str, delete_old: DeleteOld, before: datetime) -> None:
        """Delete some at a time, so that others can write; a dry run counts all at once."""
        limit = None if cleanup.dry_run else BATCH
        while True:
            with cleanup.write(self._database) as session:
                deleted = delete_old(session, before, limit)
            cleanup.count(kind, deleted)
            if limit is None or deleted < limit:
                return

    def _renew_token(self) -> None:
        renew_token(self._settings, self._database, self._storage)


def _log(cleanup: Cleanup) -> None:
    for kind, removed in cleanup.removed.items():
        if removed.count:
            log.info("removed", kind=kind, count=removed.count, bytes=removed.bytes)
