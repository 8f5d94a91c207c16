"""The time in which drivers with Spark start, or wait for a next execution: their organization's, not an execution's.

The keeper of the drivers measures it, since a driver that is killed reports nothing. A spare's wait for its first
execution is nobody's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from core.infra.database import Database
from core.lifecycle.usage.overhead import add_overhead
from orchestration.compute.host import Host

MILLISECONDS = 1000


@dataclass(slots=True)
class _Seconds:
    start: float = 0.0
    idle: float = 0.0


class OverheadMeter:
    """Measures drivers, and adds their time to that of their organizations in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seconds: dict[str, _Seconds] = {}

    def measure(self, hosts: Iterable[Host], seconds: float) -> None:
        """Count the seconds since the last call for these drivers."""
        for host in hosts:
            if host.organization_id is not None:
                measured = self._get_seconds(host.organization_id)
                measured.start += host.start_seconds
                measured.idle += seconds if host.listens else 0.0
                host.start_seconds = 0.0
            elif not host.is_ready:
                host.start_seconds += seconds

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
