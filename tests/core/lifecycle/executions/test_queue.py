"""Ten at once, and those that wait start in order as slots come back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import update

from core.errors import TooMany
from core.lifecycle.executions import transitions
from core.lifecycle.executions.outbox import fetch_due
from core.lifecycle.executions.reconcile import fail_lost, fail_zombies
from core.lifecycle.executions.reports import cancel, claim, fail, release_cancelled
from core.lifecycle.executions.repository import list_stopping
from core.lifecycle.tasks.repository import TaskRepository
from core.tables import Execution, now
from tests.support.shop import GONE, Shop


def full(shop: Shop) -> list[Execution]:
    return [shop.submit() for _ in range(10)]


@pytest.mark.long
def test_the_eleventh_waits_and_is_not_launched(shop: Shop) -> None:
    running = full(shop)
    waiting = shop.submit(queue=True)
    assert (waiting.state, shop.active()) == ("QUEUED", 10)
    with shop.database.read() as session:
        assert len(fetch_due(session, now())) == len(running)
    assert claim(shop.database, waiting.id, 1, "run") is None


def test_with_a_free_slot_nothing_waits(shop: Shop) -> None:
    assert shop.submit(queue=True).state == "PENDING"


def test_an_ending_execution_hands_its_slot_to_the_oldest_in_the_queue(shop: Shop) -> None:
    running = full(shop)
    waiting = [shop.submit(queue=True) for _ in range(6)]
    shop.complete(running[0])
    assert shop.list_states(*waiting) == ["PENDING"] + ["QUEUED"] * 5
    shop.report(running[1], "FAILED", error_message="It broke.")
    cancel(shop.database, shop.organization_id, running[2].id, "Stopped.")
    fail(shop.database, running[3].id, "It crashed.")
    claim(shop.database, running[4].id, 1, "run")
    silent(shop, running[4])
    shop.report(running[5], "RUNNING", started_at=now() - timedelta(hours=30))
    fail_zombies(shop.database, shop.organization_id, 24, now())
    assert shop.list_states(*waiting) == ["PENDING"] * 6
    assert shop.active() == 10
    with shop.database.read() as session:
        launched = {message.execution_id for message in fetch_due(session, now())}
    assert {execution.id for execution in waiting} <= launched


def silent(shop: Shop, execution: Execution) -> None:
    """Its driver is killed: nothing is heard of it for two minutes."""
    at = now()
    with shop.database.write() as session:
        long_ago = at - timedelta(minutes=2)
        session.execute(update(Execution).where(Execution.id == execution.id).values(heartbeat_at=long_ago))
    assert fail_lost(shop.database, shop.settings, at, at - timedelta(hours=1), lambda _execution: GONE) == [
        execution.id
    ]


def test_a_queued_execution_can_be_cancelled(shop: Shop) -> None:
    running = full(shop)
    first, second = shop.submit(queue=True), shop.submit(queue=True)
    assert cancel(shop.database, shop.organization_id, first.id, "Not wanted.") == "CANCELLED"
    assert shop.active() == 10
    shop.complete(running[0])
    assert shop.list_states(first, second) == ["CANCELLED", "PENDING"]


def test_stopping_the_job_starts_nothing_of_it(shop: Shop) -> None:
    executions = full(shop) + [shop.submit(queue=True) for _ in range(3)]
    with shop.database.write() as session:
        TaskRepository(session, shop.organization_id).stop_all(shop.project_id, shop.job_id)
    assert set(shop.list_states(*executions)) == {"CANCELLED"}
    assert shop.active() == 0
    with shop.database.read() as session:
        assert fetch_due(session, now()) == []


def test_a_project_is_deleted_with_its_queued_executions(shop: Shop) -> None:
    full(shop)
    shop.submit(queue=True)
    shop.delete_project()
    with shop.database.read() as session:
        assert session.query(Execution).count() == 0


def test_the_queue_is_bounded(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transitions, "MAX_QUEUED_EXECUTIONS", 2)
    full(shop)
    for _ in range(2):
        shop.submit(queue=True)
    with pytest.raises(TooMany, match="queued executions"):
        shop.submit(queue=True)


@pytest.mark.long
def test_two_hundred_at_once_all_run_in_the_end(shop: Shop) -> None:
    """Queued all at once by some threads while others end what runs: ten at most at a time, all of them once."""
    count = 200
    with ThreadPoolExecutor(20) as pool:
        submitted = [pool.submit(shop.submit, queue=True) for _ in range(count)]
        while True:
            with shop.database.read() as session:
                running = session.query(Execution).filter(Execution.state == "PENDING").all()
            assert len(running) <= 10
            list(pool.map(lambda execution: fail(shop.database, execution.id, "Over."), running))
            if all(one.done() for one in submitted) and not running:
                break
    assert [one.result().attempt for one in submitted] == [1] * count
    with shop.database.read() as session:
        assert session.query(Execution).filter(Execution.state == "FAILED").count() == count
    assert shop.active() == 0


def test_a_cancelled_execution_keeps_its_slot_until_its_driver_is_gone(shop: Shop) -> None:
    running = full(shop)
    waiting = shop.submit(queue=True)
    claim(shop.database, running[0].id, 1, "run")
    assert cancel(shop.database, shop.organization_id, running[0].id, "Stopped.") == "CANCELLED"
    assert (shop.active(), shop.list_states(waiting)) == (10, ["QUEUED"])
    with shop.database.read() as session:
        assert [each.id for each in list_stopping(session)] == [running[0].id]
    for attempt in (2, 1, 1):
        release_cancelled(shop.database, running[0].id, attempt)
        released = attempt == 1
        assert shop.list_states(waiting) == ["PENDING" if released else "QUEUED"]
        assert shop.active() == 10
    with shop.database.read() as session:
        assert list_stopping(session) == []


def test_a_retry_takes_over_the_slot_of_its_cancelled_attempt(shop: Shop) -> None:
    running = full(shop)
    claim(shop.database, running[0].id, 1, "run")
    cancel(shop.database, shop.organization_id, running[0].id, "Stopped.")
    assert shop.retry(running[0]).state == "PENDING"
    release_cancelled(shop.database, running[0].id, 1)
    assert shop.active() == 10
    fail(shop.database, running[0].id, "It broke.")
    assert shop.active() == 9


def test_deleting_a_job_frees_the_slots_of_its_cancelled_executions(shop: Shop) -> None:
    execution = shop.submit()
    claim(shop.database, execution.id, 1, "run")
    shop.delete_job()
    assert shop.active() == 0
    release_cancelled(shop.database, execution.id, 1)
    assert shop.active() == 0
