"""The time in which drivers with Spark start, or wait for a next execution: their organization's, not an execution's.

The keeper of the drivers measures it, since a driver that is killed reports nothing. A spare's wait for its first
execution is nobody's.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from core.infra.database import Database
from core.lifecycle.usage.overhead import add_overhead
from driver.host_folder import HOST_FILE, READY, TAKEN, read_host

MILLISECONDS = 1000


@dataclass(slots=True)
class _Driver:
    organization_id: str | None = None
    start_seconds: float = 0.0


@dataclass(slots=True)
class _Seconds:
    start: float = 0.0
    idle: float = 0.0


class OverheadMeter:
    """Measures the drivers of a data folder, and adds their time to that of their organizations in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._drivers: dict[str, _Driver] = {}
        self._seconds: dict[str, _Seconds] = {}

    def measure(self, folders: Iterable[Path], seconds: float) -> None:
        """Count the seconds since the last call for these drivers, and forget all others."""
        known, self._drivers = self._drivers, {}
        for folder in folders:
            driver = self._drivers[folder.name] = known.get(folder.name) or _Driver()
            is_taken = (folder / TAKEN).exists()
            if driver.organization_id is None:
                with suppress(FileNotFoundError):  # it has just ended
                    driver.organization_id = read_host(folder / HOST_FILE).organization_id
                if driver.organization_id is not None:
                    self._get_seconds(driver.organization_id).start += driver.start_seconds
            if driver.organization_id is not None:
                self._get_seconds(driver.organization_id).idle += 0.0 if is_taken else seconds
            elif not is_taken and not (folder / READY).exists():
                driver.start_seconds += seconds

    def store(self) -> None:
        """Add the measured time to the stored one; raise Unavailable and keep it when the database is away."""
        measured = {name: each for name, each in self._seconds.items() if each.start or each.idle}
        if not measured:
            return
        with self._database.write(durable=False) as session:
            for name, each in measured.items():
                add_overhead(session, name, round(each.start * MILLISECONDS), round(each.idle * MILLISECONDS))
        self._seconds = {}

    def _get_seconds(self, organization_id: str) -> _Seconds:
        return self._seconds.setdefault(organization_id, _Seconds())
