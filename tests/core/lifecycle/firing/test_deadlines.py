"""Stale tables and missed deadlines are told once, by event, webhook and notice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from core.integrations.webhooks.models import WebhookCreate
from core.integrations.webhooks.repository import WebhookRepository
from core.lifecycle.firing.deadlines import check_deadlines
from core.lifecycle.firing.work import find_next_time
from core.tables import DatasetVersion, Delivery, Execution, ExecutionEvent, Job, NotificationRule, now
from tests.core.integrations.notifications.test_notifications import list_notices, write_rule
from tests.support.shop import Shop

DAY = timedelta(days=1)


def write_target(shop: Shop, **values: Any) -> str:
    return write_rule(shop, "NTFY", {"endpoint": "http://127.0.0.1:1/x"}, **values).id


def list_stale(shop: Shop) -> list[dict[str, Any]]:
    with shop.database.read() as session:
        return [*session.scalars(select(ExecutionEvent.data).where(ExecutionEvent.kind == "stale"))]


def test_a_stale_table_is_told_once_and_again_after_a_publication(shop: Shop) -> None:
    write_target(shop, events=["late"])
    with shop.database.write() as session:
        new = WebhookCreate(url="https://example.com/x", events=["dataset.stale"])
        hooks = WebhookRepository(session, shop.organization_id)
        hooks.create(shop.settings, shop.make_key_ring(), shop.project_id, new)
    shop.complete(shop.submit())
    shop.change_job(freshness={"maxAge": "PT26H"})
    check_deadlines(shop.database, now() + timedelta(hours=25))
    assert list_stale(shop) == []
    check_deadlines(shop.database, now() + timedelta(hours=27))
    check_deadlines(shop.database, now() + 9 * DAY)
    shop.change_job(freshness={"maxAge": "PT26H"})  # clients send whole records
    check_deadlines(shop.database, now() + 9 * DAY)
    ((event, reason),) = list_notices(shop)
    assert (event, reason.split(":")[0]) == ("late", "It has published nothing for PT26H")
    (data,) = list_stale(shop)
    with shop.database.read() as session:
        (delivery,) = session.scalars(select(Delivery)).all()
    assert (delivery.type, delivery.payload["data"]) == ("dataset.stale", data)
    assert (data["jobName"], data["maxAge"]) == ("Books", "PT26H")
    shop.complete(shop.submit())
    check_deadlines(shop.database, now() + 2 * DAY)
    assert len(list_stale(shop)) == 2


def test_another_age_counts_from_the_last_completion_too(shop: Shop) -> None:
    shop.complete(shop.submit())
    with shop.database.write() as session:
        session.execute(update(Execution).values(completed_at=now() - 3 * DAY))
        session.execute(update(DatasetVersion).values(created_at=now() - 3 * DAY))
    shop.report(shop.submit(), "COMPLETED")  # it found no difference
    shop.complete(shop.submit(publish=False), completed_at=now() + DAY)
    shop.change_job(freshness={"maxAge": "PT30H"})
    check_deadlines(shop.database, now() + timedelta(hours=29))
    assert list_stale(shop) == []
    check_deadlines(shop.database, now() + timedelta(hours=31))
    assert len(list_stale(shop)) == 1


def test_a_job_that_has_never_published_becomes_stale_too_unless_it_is_disabled(shop: Shop) -> None:
    shop.change_job(freshness={"maxAge": "PT1H"}, enabled=False)
    check_deadlines(shop.database, now() + DAY)
    assert list_stale(shop) == []
    with shop.database.read() as session:
        assert find_next_time(session, now()) is None
    shop.change_job(enabled=True)
    check_deadlines(shop.database, now() + DAY)
    assert [each["datasetId"] for each in list_stale(shop)] == [None]
    shop.change_job(freshness={})
    with shop.database.read() as session:
        assert session.scalar(select(Job.stale_at)) is None
        assert find_next_time(session, now()) is None


@pytest.mark.parametrize(
    ("ended", "expected", "publish"),
    [
        (None, ["begin", "end"], True),
        ("05:30", [], True),
        ("05:30", [], False),
        ("06:45", ["end"], True),
        ("-1", ["begin", "end"], True),
    ],
)
def test_an_execution_is_expected_by_a_time_of_the_day(
    shop: Shop, ended: str | None, expected: list[str], publish: bool
) -> None:
    """In Berlin's winter; an execution begins half an hour before it ends."""
    shop.change_job(publish=publish)
    rule_id = write_target(shop, events=[], begin_by="06:30", end_by="06:40", timezone="Europe/Berlin")
    day = datetime(2027, 1, 12, tzinfo=UTC)
    execution = shop.submit()
    shop.complete(execution)
    if ended is not None:
        hours, _, minutes = ended.partition(":")
        at = day + timedelta(hours=int(hours) - 1, minutes=int(minutes or 0))
        with shop.database.write() as session:
            values = {"started_at": at - timedelta(minutes=30), "completed_at": at}
            session.execute(update(Execution).where(Execution.id == execution.id).values(values))
    with shop.database.write() as session:
        rule = session.get_one(NotificationRule, rule_id)
        rule.next_begin_at, rule.next_end_at = (day + timedelta(hours=5, minutes=each) for each in (30, 40))
        assert find_next_time(session, day) == rule.next_begin_at
    for _ in range(2):
        check_deadlines(shop.database, day + timedelta(hours=5, minutes=41))
    notices = list_notices(shop)
    assert [event for event, _ in notices] == expected
    if "begin" in expected:
        assert notices[0][1] == "No execution had begun by 06:30 (Europe/Berlin) on 2027-01-12."
    with shop.database.read() as session:
        following = session.get_one(NotificationRule, rule_id).next_begin_at
        assert following == day + timedelta(days=1, hours=5, minutes=30)
