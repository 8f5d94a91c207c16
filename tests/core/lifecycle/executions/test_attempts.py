"""Retries by themselves, timeouts, and what is shown of the attempts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import update

from core.lifecycle.executions.attempts import list_attempts
from core.lifecycle.executions.outbox import fetch_due
from core.lifecycle.executions.reconcile import admit_waiting, fail_lost, fail_overdue, fail_zombies, list_overdue
from core.lifecycle.executions.reports import cancel, claim, fail
from core.lifecycle.executions.retries import FailureCode
from core.lifecycle.executions.spec import build_spec
from core.tables import Execution, ExecutionAttempt, ExecutionBill, ExecutionEvent, now
from tests.support.shop import GONE, Shop

LONG_AGO = timedelta(days=1)


def start(shop: Shop) -> Execution:
    execution = shop.submit()
    begin(shop, execution, 1)
    return execution


def begin(shop: Shop, execution: Execution, attempt: int) -> None:
    assert claim(shop.database, execution.id, attempt, f"run {attempt}") is not None
    shop.report(execution, "RUNNING", additional_metrics={"attempt": attempt, "progress": {"fraction": 0.5}})


def lose(shop: Shop, execution: Execution) -> str:
    return fail(shop.database, execution.id, "It was lost.", code=FailureCode.DRIVER_LOST)


def wait_out(shop: Shop, execution: Execution) -> None:
    """The pause before the next attempt passes."""
    with shop.database.write() as session:
        session.execute(update(Execution).where(Execution.id == execution.id).values(retry_at=now()))
    admit_waiting(shop.database)


def attempts(shop: Shop, execution: Execution) -> list[ExecutionAttempt]:
    with shop.database.read() as session:
        return [*list_attempts(session, session.get_one(Execution, execution.id))]


def states(shop: Shop) -> list[str]:
    """The states that the events show."""
    with shop.database.read() as session:
        events = session.query(ExecutionEvent).filter(ExecutionEvent.kind == "state").order_by(ExecutionEvent.id)
        return [event.data["state"] for event in events]


def test_a_lost_driver_is_retried_after_a_pause(shop: Shop) -> None:
    shop.change_job(max_retries=2, retry_backoff_seconds=60)
    execution = start(shop)
    shop.change_job(max_retries=0)  # what was accepted stays
    began = now()
    assert lose(shop, execution) == "QUEUED"
    waiting = shop.reload(execution)
    assert (waiting.attempt, waiting.retries, waiting.error_message, waiting.progress) == (2, 1, None, {})
    assert waiting.retry_at is not None
    assert began <= waiting.retry_at - timedelta(seconds=60) <= now()
    assert shop.active() == 0  # others may run meanwhile
    admit_waiting(shop.database)
    assert shop.reload(execution).state == "QUEUED"

    before = shop.content(execution)
    for late in ({"attempt": 1}, {}):
        for status in ("RUNNING", "FAILED", "COMPLETED"):
            assert shop.report(execution, status, additional_metrics=late) == "QUEUED"
    assert shop.content(execution) == before

    wait_out(shop, execution)
    assert (shop.reload(execution).state, shop.reload(execution).retry_at, shop.active()) == ("PENDING", None, 1)
    with shop.database.read() as session:
        assert [(each.execution_id, each.attempt) for each in fetch_due(session, now())] == [(execution.id, 2)]
    begin(shop, execution, 2)
    began = now()
    lose(shop, execution)
    assert began <= (shop.reload(execution).retry_at or began) - timedelta(seconds=120) <= now()
    wait_out(shop, execution)
    begin(shop, execution, 3)
    assert lose(shop, execution) == "FAILED"
    assert shop.active() == 0
    ended = attempts(shop, execution)
    assert [(each.attempt, each.state, each.run_id) for each in ended] == [
        (number, "FAILED", f"run {number}") for number in (1, 2, 3)
    ]
    assert {(each.error_message, each.error_code) for each in ended} == {("It was lost.", "driver-lost")}
    assert all(each.started_at and each.completed_at for each in ended)
    assert states(shop).count("FAILED") == 1
    with shop.database.read() as session:
        assert session.query(ExecutionBill).count() == 3


def test_without_a_pause_the_next_attempt_begins_at_once(shop: Shop) -> None:
    shop.change_job(max_retries=1, retry_backoff_seconds=0)
    execution = start(shop)
    assert lose(shop, execution) == "PENDING"
    assert shop.active() == 1
    begin(shop, execution, 2)
    assert shop.complete(execution, additional_metrics={"attempt": 2}) == "COMPLETED"
    assert shop.complete(execution, additional_metrics={"attempt": 1}) == "COMPLETED"
    assert [each.state for each in attempts(shop, execution)] == ["FAILED", "COMPLETED"]
    assert shop.active() == 0


@pytest.mark.parametrize("retry_on", ["infrastructure", "any"])
def test_failures_of_the_pipeline_are_retried_where_wanted(shop: Shop, retry_on: str) -> None:
    shop.change_job(max_retries=1, retry_on=retry_on)
    execution = start(shop)
    state = shop.report(execution, "FAILED", error_message="It broke.", additional_metrics={"attempt": 1})
    assert state == ("FAILED" if retry_on == "infrastructure" else "QUEUED")
    assert attempts(shop, execution)[0].error_code == "pipeline-failed"
    lost = start(shop)
    known = {"attempt": 1, "errorCode": "driver-lost"}  # as the driver knows it
    assert shop.report(lost, "FAILED", error_message="Spark ended.", additional_metrics=known) == "QUEUED"
    assert attempts(shop, lost)[0].error_code == "driver-lost"


def test_a_cancel_during_the_pause_ends_it(shop: Shop) -> None:
    shop.change_job(max_retries=5)
    execution = start(shop)
    lose(shop, execution)
    assert cancel(shop.database, shop.organization_id, execution.id, "Stopped.") == "CANCELLED"
    assert (shop.active(), shop.reload(execution).retry_at, shop.reload(execution).error_code) == (0, None, "cancelled")
    wait_out(shop, execution)
    assert shop.reload(execution).state == "CANCELLED"


def test_a_retry_waits_for_a_slot(shop: Shop) -> None:
    shop.change_job(max_retries=1)
    execution = start(shop)
    lose(shop, execution)
    for _ in range(10):
        shop.submit()
    wait_out(shop, execution)
    assert (shop.reload(execution).state, shop.active()) == ("QUEUED", 10)
    shop.free_one_slot()
    assert (shop.reload(execution).state, shop.active()) == ("PENDING", 10)


def test_nothing_is_retried_that_somebody_has_ended(shop: Shop) -> None:
    shop.change_job(max_retries=5, retry_on="any")
    given_up, disabled = start(shop), start(shop)
    fail_zombies(shop.database, shop.organization_id, 0, now() + timedelta(hours=1))
    assert (shop.reload(given_up).state, shop.reload(given_up).error_code) == ("FAILED", "given-up")
    disabled = start(shop)
    shop.change_job(enabled=False)
    assert lose(shop, disabled) == "FAILED"


def test_a_retry_by_hand_begins_the_count_anew(shop: Shop) -> None:
    shop.change_job(max_retries=1, retry_backoff_seconds=0)
    execution = start(shop)
    lose(shop, execution)
    assert lose(shop, execution) == "FAILED"
    shop.retry(execution)
    assert shop.reload(execution).error_code is None
    assert lose(shop, execution) == "PENDING"
    assert [each.attempt for each in attempts(shop, execution)] == [1, 2, 3, 4]


def test_a_silent_driver_is_retried(shop: Shop) -> None:
    shop.change_job(max_retries=1)
    execution = start(shop)
    with shop.database.write() as session:
        session.execute(update(Execution).values(heartbeat_at=now() - timedelta(seconds=61)))
    assert fail_lost(shop.database, shop.settings, now(), now() - LONG_AGO, lambda _execution: GONE) == [execution.id]
    assert shop.reload(execution).state == "QUEUED"
    assert fail_lost(shop.database, shop.settings, now(), now() - LONG_AGO, lambda _execution: GONE) == []


def test_an_attempt_ends_at_its_timeout(shop: Shop) -> None:
    shop.change_job(timeout_seconds=60, max_retries=1, retry_on="any", retry_backoff_seconds=0)
    execution, unclaimed = start(shop), shop.submit()
    claimed_at = shop.reload(execution).claimed_at
    assert list_overdue(shop.database, claimed_at + timedelta(seconds=60)) == []
    (overdue,) = list_overdue(shop.database, claimed_at + timedelta(seconds=61))
    assert overdue.id == execution.id
    assert fail_overdue(shop.database, overdue) == "PENDING"
    assert fail_overdue(shop.database, overdue) == "PENDING"  # the next attempt has its own time
    assert list_overdue(shop.database, now() + timedelta(seconds=61)) == []
    begin(shop, execution, 2)
    (overdue,) = list_overdue(shop.database, now() + timedelta(seconds=61))
    assert fail_overdue(shop.database, overdue) == "FAILED"
    stored = shop.reload(execution)
    assert (stored.error_code, "60 seconds" in (stored.error_message or "")) == ("timeout", True)
    assert shop.reload(unclaimed).state == "PENDING"


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_retry_of_a_failed_check_begins_before_the_pages_that_it_read(shop: Shop, by_hand: bool) -> None:
    shop.change_job(max_retries=0 if by_hand else 3, retry_on="any")
    execution = start(shop)
    checks = [{"check": "row_count at least 3", "passed": False, "severity": "error", "message": "2 rows"}]
    failed = {"attempt": 1, "progress": {"checks": checks}}
    shop.report(execution, "FAILED", error_message="line 5: check row_count", additional_metrics=failed)
    if by_hand:
        shop.retry(execution)
    else:
        wait_out(shop, execution)

    def describe_attempt() -> tuple[bool, list[str]]:
        spec = build_spec(shop.settings, shop.storage, shop.reload(execution))
        folders = (spec.checkpoints.folder, *spec.checkpoints.earlier)
        return spec.pages.trusted_since > execution.created_at, [each.split("/")[-2] for each in folders]

    assert describe_attempt() == (True, ["2"])
    begin(shop, execution, 2)
    lose(shop, execution)
    if by_hand:
        shop.retry(execution)
    assert describe_attempt() == (True, ["3", "2"]), "what a lost driver has read is good"


@pytest.mark.parametrize("severity", ["warn", None])
def test_another_failure_keeps_the_pages(shop: Shop, severity: str | None) -> None:
    execution = start(shop)
    checks = [{"check": "x", "passed": False, "severity": severity}] if severity else []
    shop.report(execution, "FAILED", error_message="It broke.", additional_metrics={"progress": {"checks": checks}})
    spec = build_spec(shop.settings, shop.storage, shop.retry(execution))
    assert spec.pages.trusted_since == execution.created_at
    assert len(spec.checkpoints.earlier) == 1
