"""Rest of processes that poll the database, as long as nobody has changed it."""

from __future__ import annotations

import sqlite3


class IdleWatch:
    """Spares the queries of a step that found nothing to wait for: its rest lasts until the next commit of anybody.

    `path` is the file of SQLite, whose data_version costs some microseconds. PostgreSQL has no file and nothing like
    it: there is no rest. The connection does not survive a fork: close it before.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._version: int | None = None
        self._rests = False

    def is_resting(self) -> bool:
        """Return whether `rest` was called, and nothing was committed since the call of this method before that."""
        version = self._read_version()
        self._rests = self._rests and version is not None and version == self._version
        self._version = version
        return self._rests

    def rest(self) -> None:
        """Rest from now on: only commits change what the step finds."""
        self._rests = True

    def close(self) -> None:
        self._rests = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read_version(self) -> int | None:
        """Return a number that differs after a commit of another connection; None where it is unknown."""
        if self._path is None:
            return None
        try:
            if self._connection is None:
                self._connection = sqlite3.connect(self._path, check_same_thread=False)
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:  # the step's own query reports it
            return None
        return version
