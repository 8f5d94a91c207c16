"""A project with a schedule and several jobs, and a clock that tests set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

from core.definitions.identity.api_keys import Identity
from core.definitions.schedules import service as schedules
from core.definitions.schedules.models import ScheduleUpdate
from core.definitions.schedules.repository import TickWithJobs
from core.definitions.schedules.service import ScheduleState
from core.lifecycle.firing.schedules import FiredTick, fire
from core.lifecycle.firing.waiting import submit_waiting
from core.tables import Execution, Schedule
from tests.support.shop import Shop

MONDAY = datetime(2027, 3, 1, tzinfo=UTC)


@dataclass
class Timed:
    """The shop with a schedule, each hour from the start of `MONDAY` on."""

    shop: Shop

    @property
    def caller(self) -> Identity:
        return self.shop.caller

    def set(self, **changes: Any) -> ScheduleState:
        with self.shop.database.write() as session:
            update = ScheduleUpdate(**changes)
            return schedules.update(session, self.caller, self.shop.project_id, update, ()).value

    def read(self) -> ScheduleState:
        with self.shop.database.read() as session:
            return schedules.get(session, self.caller, self.shop.project_id).value

    def rewind(self, at: datetime = MONDAY) -> None:
        """Let the schedule be handled up to and without this time."""
        with self.shop.database.write() as session:
            query = select(Schedule).where(Schedule.project_id == self.shop.project_id, Schedule.name == "")
            session.scalars(query).one().next_tick_at = at

    @property
    def id(self) -> str:
        return self.read().schedule.id

    def fire(self, tick_at: datetime, at: datetime | None = None) -> FiredTick:
        return fire(self.shop.database, self.shop.settings, self.id, tick_at, at or tick_at)

    def sync(self) -> None:
        submit_waiting(self.shop.database, self.shop.settings)

    def ticks(self) -> list[TickWithJobs]:
        """Return the ticks, oldest first."""
        with self.shop.database.read() as session:
            return list(reversed(schedules.list_ticks(session, self.caller, self.shop.project_id)))

    def outcomes(self) -> list[tuple[int, str, Mapping[str, str]]]:
        """Return the hour, the state and the jobs' states of each tick."""
        return [
            (each.tick.tick_at.hour, each.tick.state, {job.job_name: job.state for job in each.jobs})
            for each in self.ticks()
        ]

    def executions(self) -> list[Execution]:
        return self.shop.list_executions()

    def add_job(self, name: str, **values: Any) -> str:
        return self.shop.add_job(name, **values).job_id


@pytest.fixture
def timed(shop: Shop) -> Timed:
    timed = Timed(shop)
    timed.set(cron_schedule="@hourly")
    timed.rewind()
    return timed
