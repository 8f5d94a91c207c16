"""Reading events, between which others are written."""

from __future__ import annotations

from typing import Any

import pytest

from core.events import feed
from core.events.feed import Batch, of_execution
from core.executions.states import State
from core.tables import Execution
from tests.support.shop import Shop


def read(shop: Shop, execution: Execution, after: int | None = None) -> Batch:
    with shop.database.read() as session:
        return of_execution(session, shop.organization_id, shop.project_id, shop.job_id, execution.id, after)


def test_an_end_that_a_retry_follows_meanwhile_is_none(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    execution = shop.submit()
    shop.report(execution, "FAILED", error_message="It broke.")
    pending, failed = read(shop, execution).events
    events_read = feed._read

    def after_a_retry(*arguments: Any) -> Any:
        shop.retry(execution)
        return events_read(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(feed, "_read", after_a_retry)
        between = read(shop, execution, pending.id)
    states = [State(event.data["state"]) for event in between.events]
    assert states[0] is State.FAILED
    assert between.ended == states[-1].terminal
    after = read(shop, execution, failed.id)
    assert ([event.data["state"] for event in after.events], after.ended) == (["PENDING"], False)


def test_what_happens_between_state_and_events_is_told_now_or_next(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    execution = shop.submit()
    events_read = feed._read

    def after_the_end(*arguments: Any) -> Any:
        shop.report(execution, "FAILED", error_message="It broke.")
        return events_read(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(feed, "_read", after_the_end)
        first = read(shop, execution)
    rest = read(shop, execution, first.events[-1].id)
    assert [event.data["state"] for event in (*first.events, *rest.events)] == ["PENDING", "FAILED"]
    assert rest.ended
