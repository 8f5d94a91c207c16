"""The attempts that run, read once for all runs of this process, so that a cancel reaches its run with its commit."""

from __future__ import annotations

import threading
import time

from core.errors import Unavailable
from core.infra.database import Database
from core.lifecycle.executions.repository import list_running_attempts

_REST_SECONDS = 0.5  # commits of other instances are not noticed
_FRESH_SECONDS = 2.0


class RunningAttempts:
    """The claimed attempts that have not ended, as of the last commit of this instance."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._commits = database.watch_commits()
        self._lock = threading.Lock()
        self._running: frozenset[tuple[str, int]] = frozenset()
        self._read_at = -_FRESH_SECONDS

    def is_running(self, execution_id: str, attempt: int) -> bool | None:
        """Return whether a claimed attempt has not ended; None while the database does not answer."""
        if self._lock.acquire(blocking=False):  # while another run reads, its last answer counts
            try:
                self._refresh()
            finally:
                self._lock.release()
        if time.monotonic() - self._read_at > _FRESH_SECONDS:
            return None
        return (execution_id, attempt) in self._running

    def _refresh(self) -> None:
        if self._commits.is_resting():
            return
        try:
            with self._database.read() as session:
                self._running = list_running_attempts(session)
        except Unavailable:
            self._read_at = -_FRESH_SECONDS
            return
        self._read_at = time.monotonic()
        self._commits.rest(_REST_SECONDS)
