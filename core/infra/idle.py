"""Rest of processes that poll the database, as long as nobody has changed it."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from core.infra.commit_mark import CommitMark

MAX_REST_SECONDS = 30.0  # commits of other instances do not change the mark of this one


class IdleWatch:
    """Spares the queries of a step that found nothing to do: its rest lasts until the next commit, or some seconds.

    `source` is the file of SQLite, whose data_version costs some microseconds, or the mark beside PostgreSQL. The
    connection to SQLite does not survive a fork: close it before.
    """

    def __init__(self, source: Path | CommitMark) -> None:
        self._source = source
        self._connection: sqlite3.Connection | None = None
        self._version: int | None = None
        self._rests = False
        self._rest_ends_at = 0.0

    def is_resting(self) -> bool:
        """Return whether a rest lasts, and nothing was committed since the call of this method before it began."""
        version = self._read_version()
        is_over = time.monotonic() > self._rest_ends_at
        self._rests = self._rests and not is_over and version is not None and version == self._version
        self._version = version
        return self._rests

    def rest(self, seconds: float = MAX_REST_SECONDS) -> None:
        """Rest from now on: until then only commits change the findings of the step."""
        self._rests = True
        self._rest_ends_at = time.monotonic() + min(seconds, MAX_REST_SECONDS)

    def close(self) -> None:
        self._rests = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read_version(self) -> int | None:
        """Return a number that differs after a commit of another connection; None where it is unknown."""
        if isinstance(self._source, CommitMark):
            return self._source.read()
        try:
            if self._connection is None:
                self._connection = sqlite3.connect(self._source, check_same_thread=False)
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:  # the step's own query reports it
            return None
        return version
