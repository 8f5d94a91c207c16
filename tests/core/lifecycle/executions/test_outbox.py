from __future__ import annotations

from datetime import timedelta

from core.lifecycle.executions.outbox import fetch_due, fetch_unclaimed, mark_launched, postpone
from core.lifecycle.executions.reports import cancel, claim
from core.tables import OutboxMessage, now
from tests.support.shop import Shop, make_shop

SOON = timedelta(seconds=10)


def launch(shop: Shop, run_id: str = "run") -> OutboxMessage:
    with shop.database.write() as session:
        (message,) = fetch_due(session, now())
        mark_launched(session, message, run_id)
    return message


def test_launches_are_due_oldest_first_until_they_are_made(shop: Shop) -> None:
    executions = [shop.submit() for _ in range(3)]
    with shop.database.write() as session:
        messages = fetch_due(session, now())
        assert [message.execution_id for message in messages] == [execution.id for execution in executions]
        assert [message.id for message in fetch_due(session, now(), 1)] == [messages[0].id]
        mark_launched(session, messages[1], "run")
    with shop.database.read() as session:
        assert [message.id for message in fetch_due(session, now())] == [messages[0].id, messages[2].id]


def test_organizations_and_their_projects_take_turns(shop: Shop) -> None:
    rival = make_shop(shop.settings, shop.database, "rival")
    second = shop.add_project("Second")
    many = [shop.submit() for _ in range(5)]
    late, rivals = second.submit(), [rival.submit(), rival.submit()]
    expected = [many[0], rivals[0], late, rivals[1], *many[1:]]
    with shop.database.read() as session:
        assert [each.execution_id for each in fetch_due(session, now())] == [each.id for each in expected]
        assert [each.execution_id for each in fetch_due(session, now(), 2)] == [each.id for each in expected[:2]]


def test_a_postponed_launch_comes_up_again(shop: Shop) -> None:
    shop.submit()
    with shop.database.write() as session:
        (message,) = fetch_due(session, now())
        postpone(session, message, SOON)
    with shop.database.read() as session:
        assert fetch_due(session, now()) == []
        (again,) = fetch_due(session, now() + SOON)
        assert again.tries == 1


def test_a_cancelled_execution_is_not_launched(shop: Shop) -> None:
    cancel(shop.database, shop.organization_id, shop.submit().id, "Stopped.")
    with shop.database.read() as session:
        assert fetch_due(session, now()) == []


def test_an_unclaimed_launch_is_repeated_after_a_timeout(shop: Shop) -> None:
    execution = shop.submit()
    message = launch(shop)
    with shop.database.write() as session:
        assert fetch_unclaimed(session, now() - SOON) == []
        (orphan,) = fetch_unclaimed(session, now() + SOON)
        assert (orphan.execution_id, orphan.dagster_run_id) == (execution.id, "run")
        postpone(session, orphan, timedelta(0))
    with shop.database.read() as session:
        assert [each.id for each in fetch_due(session, now())] == [message.id]
        assert fetch_unclaimed(session, now() + SOON) == []


def test_a_claimed_launch_is_nobodys_orphan(shop: Shop) -> None:
    execution = shop.submit()
    launch(shop)
    claim(shop.database, execution.id, 1, "run")
    with shop.database.read() as session:
        assert fetch_unclaimed(session, now() + SOON) == []


def test_recording_a_launch_of_a_deleted_project_is_no_error(shop: Shop) -> None:
    shop.submit()
    with shop.database.read() as session:
        (message,) = fetch_due(session, now())
    shop.delete_project()
    with shop.database.write() as session:
        mark_launched(session, message, "run")
        assert fetch_due(session, now()) == []
