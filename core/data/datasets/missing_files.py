"""The check that no data file of a version is missing in the storage, which some engines read as fewer rows.

Other programs may delete files of a Delta or Iceberg table that published versions still need. The folder of a version
is listed once for every state of its table's log, and once a minute, because some programs log no deletion.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from threading import Lock

from core.errors import Conflict, SpindleError
from core.infra.installation import find_original
from core.infra.storage.protocol import Storage
from pipelines.language.formats import TABLE_FORMATS
from pipelines.tables.snapshots import LOG_FOLDERS

REPEAT_SECONDS = 60
REMEMBERED = 10_000  # versions

LogState = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Key:
    address: str
    format: str
    snapshot: str | None
    files: int
    last: str


class MissingFilesCheck:
    """Remembers per version with which state of its table's log its files were complete."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._complete: dict[_Key, tuple[LogState, float]] = {}

    def check(
        self,
        storage: Storage,
        name: str,
        format_: str,
        locations: Sequence[str],
        snapshot: str | None,
        keys: Collection[str],
        *,
        again: bool = False,
    ) -> None:
        """Raise Conflict with the version's name when some of its files are missing; look `again` on request."""
        if not keys:
            return
        state = _read_log_state(storage, format_, locations[0]) if format_ in TABLE_FORMATS else ()
        key = _Key(storage.url_for(locations[0], "sql"), format_, snapshot, len(keys), max(keys))
        with self._lock:
            complete = self._complete.get(key)
        if complete is not None and complete[0] == state and self._clock() < complete[1] and not again:
            return
        stored = {file.key for location in dict.fromkeys(locations) for file in storage.list(location)}
        if not stored.issuperset(keys):
            raise report_missing(storage, name)
        with self._lock:
            if len(self._complete) >= REMEMBERED:
                self._complete.clear()
            self._complete[key] = state, self._clock() + REPEAT_SECONDS


MISSING_FILES = MissingFilesCheck()


def report_missing(storage: Storage, name: str) -> SpindleError:
    """Return the error for a version whose rows cannot all be read any more, or that a copied service has not got."""
    if find_original(storage):
        sentence = f"Files of {name} are missing: this service is a copy, and they were not copied from the original."
        return Conflict(sentence, code="missing-files")
    sentence = f"Files of {name} are missing in the storage: another program has deleted them."
    return Conflict(f"{sentence} Read a later version, or restore the files.", code="missing-files")


def _read_log_state(storage: Storage, format_: str, location: str) -> LogState:
    """Return the names of the log's newest files, which every change of the table adds to."""
    return tuple(file.key for file in storage.list(f"{location}/{LOG_FOLDERS[format_]}"))
