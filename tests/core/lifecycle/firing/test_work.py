"""The launcher rests until the next time that is stored, and looks at once while something goes on."""

from __future__ import annotations

from datetime import datetime, timedelta

from core.definitions.schedules.switches import agree_on_switches
from core.lifecycle.firing.work import find_next_time
from tests.core.lifecycle.firing.conftest import MONDAY, Timed

HOUR = timedelta(hours=1)


def find_next(timed: Timed, at: datetime = MONDAY) -> datetime | None:
    with timed.shop.database.read() as session:
        return find_next_time(session, at)


def test_nothing_is_foreseen_without_schedules_and_executions(timed: Timed) -> None:
    timed.set(cron_schedule="")
    assert find_next(timed) is None


def test_a_schedule_is_looked_at_when_it_is_due(timed: Timed) -> None:
    timed.rewind(MONDAY + HOUR)
    assert find_next(timed) == MONDAY  # Dagster's switch has never agreed with it
    agree_on_switches(timed.shop.database, {"shop": True})
    assert find_next(timed) == MONDAY + HOUR
    assert find_next(timed, MONDAY + 2 * HOUR) == MONDAY + 2 * HOUR
    timed.set(enabled=False)
    assert find_next(timed) == MONDAY  # until it is turned in Dagster


def test_an_execution_is_followed_until_it_has_ended(timed: Timed) -> None:
    timed.set(cron_schedule="")
    execution = timed.shop.submit()
    assert find_next(timed) == MONDAY
    timed.shop.complete(execution)
    assert find_next(timed) is None
