"""Executions that have lost their driver, or run for too long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from core.errors import BadInput
from core.infra.database import Database
from core.lifecycle.executions.reconcile import Sighting, fail_lost, fail_zombies
from core.lifecycle.executions.reports import claim
from core.tables import Execution, Task, now
from tests.support.shop import Shop

LONG_AGO = timedelta(days=1)
GONE, THERE = Sighting(False, "its process has ended with exit code 9"), Sighting(True, "it is still there")


def list_lost(shop: Shop, sighting: Sighting = GONE, up_for: timedelta = LONG_AGO) -> list[str]:
    at = now()
    return fail_lost(shop.database, shop.settings, at, at - up_for, lambda _execution: sighting)


def fall_silent(database: Database, seconds: float) -> None:
    with database.write() as session:
        session.execute(update(Execution).values(heartbeat_at=now() - timedelta(seconds=seconds)))


def test_a_silent_execution_has_lost_its_driver(shop: Shop) -> None:
    execution = shop.submit()
    claim(shop.database, execution.id, 1, "run")
    fall_silent(shop.database, 61)
    assert list_lost(shop) == [execution.id]
    stored = shop.reload(execution)
    assert stored.state == "FAILED"
    assert stored.error_message == (
        "The execution lost its driver: nothing was heard from it for 61 seconds, and its process has ended with exit "
        "code 9. Execute the job again."
    )
    assert shop.active() == 0
    assert list_lost(shop) == []


def test_a_running_one_is_watched_as_well(shop: Shop) -> None:
    execution = shop.submit()
    claim(shop.database, execution.id, 1, "run")
    shop.report(execution, "RUNNING")
    fall_silent(shop.database, 61)
    assert list_lost(shop) == [execution.id]


def test_a_driver_that_is_there_may_be_silent_for_longer(shop: Shop) -> None:
    execution = shop.submit()
    claim(shop.database, execution.id, 1, "run")
    fall_silent(shop.database, 590)
    assert list_lost(shop, THERE) == []
    fall_silent(shop.database, 610)
    assert list_lost(shop, THERE, up_for=timedelta(seconds=590)) == []
    assert list_lost(shop, THERE) == [execution.id]
    assert "610 seconds, and it is still there." in (shop.reload(execution).error_message or "")


def test_a_heartbeat_within_the_time_keeps_it(shop: Shop) -> None:
    claim(shop.database, shop.submit().id, 1, "run")
    fall_silent(shop.database, 59)
    assert list_lost(shop) == []


def test_silence_counts_only_while_the_service_was_up(shop: Shop) -> None:
    claim(shop.database, shop.submit().id, 1, "run")
    fall_silent(shop.database, 3600)
    assert list_lost(shop, up_for=timedelta(seconds=59)) == []
    assert len(list_lost(shop, up_for=timedelta(seconds=61))) == 1


def test_an_unclaimed_execution_waits(shop: Shop) -> None:
    shop.submit()
    unclaimed = shop.submit()
    shop.report(unclaimed, "RUNNING")  # by somebody else's compute, which need not send heartbeats
    fall_silent(shop.database, 3600)
    assert list_lost(shop) == []


NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
DAY = timedelta(hours=24)
SECOND = timedelta(seconds=1)


def running(shop: Shop, since: datetime) -> Execution:
    execution = shop.submit()
    shop.report(execution, "RUNNING", started_at=since)
    return execution


def test_a_run_longer_than_the_timeout_fails(shop: Shop) -> None:
    old, young = running(shop, NOW - DAY - SECOND), running(shop, NOW - DAY + SECOND)
    cleanup = fail_zombies(shop.database, shop.organization_id, 24, NOW)
    assert cleanup.marked_task_ids == (old.task_id,)
    assert cleanup.message == "Marked 1 task as failed that ran for more than 24 hours."
    marked = shop.reload(old)
    assert (marked.state, marked.completed_at) == ("FAILED", NOW)
    assert "more than 24 hours" in (marked.error_message or "")
    assert shop.reload(young).state == "RUNNING"
    assert shop.active() == 1
    assert fail_zombies(shop.database, shop.organization_id, 24, NOW).marked_task_ids == ()


@pytest.mark.parametrize(("ago", "marked"), [(DAY + SECOND, True), (DAY - SECOND, False)])
def test_without_a_start_the_scheduled_time_counts(shop: Shop, ago: timedelta, marked: bool) -> None:
    execution = running(shop, NOW)
    with shop.database.write() as session:
        session.execute(update(Execution).values(started_at=None))
        session.execute(update(Task).values(scheduled_time=NOW - ago))
    assert bool(fail_zombies(shop.database, shop.organization_id, 24, NOW).marked_task_ids) is marked
    if marked:
        assert shop.reload(execution).started_at == NOW - ago


def test_only_running_executions_are_failed(shop: Shop, other_shop: Shop) -> None:
    shop.submit()
    shop.complete(running(shop, NOW - 2 * DAY))
    running(other_shop, NOW - 2 * DAY)
    assert fail_zombies(shop.database, shop.organization_id, 24, NOW).marked_task_ids == ()


@pytest.mark.parametrize("hours", [-1, 10**9])
def test_odd_timeouts_are_refused(shop: Shop, hours: int) -> None:
    with pytest.raises(BadInput, match="timeoutHours"):
        fail_zombies(shop.database, shop.organization_id, hours, NOW)
