from __future__ import annotations

from datetime import timedelta

from sqlalchemy import update

from core.infra.database import Database
from core.lifecycle.executions.reconcile import fail_lost
from core.lifecycle.executions.reports import claim
from core.tables import Execution, now
from tests.support.shop import Shop

LONG_AGO = timedelta(days=1)


def fall_silent(database: Database, seconds: float) -> None:
    with database.write() as session:
        session.execute(update(Execution).values(heartbeat_at=now() - timedelta(seconds=seconds)))


def test_a_silent_execution_has_lost_its_driver(shop: Shop) -> None:
    execution = shop.submit()
    claim(shop.database, execution.id, 1, "run")
    fall_silent(shop.database, 61)
    assert fail_lost(shop.database, shop.settings, now(), now() - LONG_AGO) == [execution.id]
    stored = shop.reload(execution)
    assert stored.state == "FAILED"
    assert "lost its driver" in (stored.error_message or "")
    assert shop.active() == 0
    assert fail_lost(shop.database, shop.settings, now(), now() - LONG_AGO) == []


def test_a_running_one_is_watched_as_well(shop: Shop) -> None:
    execution = shop.submit()
    claim(shop.database, execution.id, 1, "run")
    shop.report(execution, "RUNNING")
    fall_silent(shop.database, 61)
    assert fail_lost(shop.database, shop.settings, now(), now() - LONG_AGO) == [execution.id]


def test_a_heartbeat_within_the_time_keeps_it(shop: Shop) -> None:
    claim(shop.database, shop.submit().id, 1, "run")
    fall_silent(shop.database, 59)
    assert fail_lost(shop.database, shop.settings, now(), now() - LONG_AGO) == []


def test_silence_counts_only_while_the_service_was_up(shop: Shop) -> None:
    claim(shop.database, shop.submit().id, 1, "run")
    fall_silent(shop.database, 3600)
    assert fail_lost(shop.database, shop.settings, now(), now() - timedelta(seconds=59)) == []
    assert len(fail_lost(shop.database, shop.settings, now(), now() - timedelta(seconds=61))) == 1


def test_an_unclaimed_execution_waits(shop: Shop) -> None:
    shop.submit()
    unclaimed = shop.submit()
    shop.report(unclaimed, "RUNNING")  # by somebody else's compute, which need not send heartbeats
    fall_silent(shop.database, 3600)
    assert fail_lost(shop.database, shop.settings, now(), now() - LONG_AGO) == []
