from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from core.errors import BadInput
from core.lifecycle.executions.reconcile import fail_zombies
from core.tables import Execution, Task
from tests.support.shop import Shop

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


def test_a_report_that_comes_late_does_not_wake_it(shop: Shop) -> None:
    execution = running(shop, NOW - 2 * DAY)
    fail_zombies(shop.database, shop.organization_id, 1, NOW)
    assert shop.complete(execution) == "FAILED"
    assert shop.active() == 0


@pytest.mark.parametrize("hours", [-1, 10**9])
def test_odd_timeouts_are_refused(shop: Shop, hours: int) -> None:
    with pytest.raises(BadInput, match="timeoutHours"):
        fail_zombies(shop.database, shop.organization_id, hours, NOW)
