"""A file whose time changes with every commit to PostgreSQL, which has no number of commits as SQLite has."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path


class CommitMark:
    """Notifies the processes of an instance, which share its data folder, of a commit by one of them."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def touch(self) -> None:
        """Change the mark, after a commit. On a full or a lost disk it stays: processes rest for some seconds only."""
        at = time.time_ns()
        with suppress(OSError):
            try:
                os.utime(self._path, ns=(at, at))
            except FileNotFoundError:
                self._path.touch(mode=0o600)

    def read(self) -> int:
        """Return a number that differs after a commit."""
        try:
            return self._path.stat().st_mtime_ns
        except OSError:
            return 0
