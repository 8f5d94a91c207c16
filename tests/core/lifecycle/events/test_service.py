"""Reading events, between which others are written."""

from __future__ import annotations

from typing import Any

import pytest

from core.definitions.identity.api_keys import Identity
from core.lifecycle.events import service
from core.lifecycle.events.service import EventBatch
from core.tables import Execution
from core.tables.states import State
from tests.support.shop import Shop


def read(shop: Shop, execution: Execution, after: int | None = None) -> EventBatch:
    caller = Identity(shop.organization_id, "key", frozenset())
    return service.list_of_execution(shop.database, caller, shop.project_id, shop.job_id, execution.id, after)


def test_an_end_that_a_retry_follows_meanwhile_is_none(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    execution = shop.submit()
    shop.report(execution, "FAILED", error_message="It broke.")
    pending, failed = read(shop, execution).events
    events_read = service.load_events

    def after_a_retry(*arguments: Any) -> Any:
        shop.retry(execution)
        return events_read(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(service, "load_events", after_a_retry)
        between = read(shop, execution, pending.id)
    states = [State(event.data["state"]) for event in between.events]
    assert states[0] is State.FAILED
    assert between.ended == states[-1].terminal
    after = read(shop, execution, failed.id)
    assert ([event.data["state"] for event in after.events], after.ended) == (["PENDING"], False)


def test_no_event_between_state_and_stream_is_lost(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    execution = shop.submit()
    events_read = service.load_events

    def after_the_end(*arguments: Any) -> Any:
        shop.report(execution, "FAILED", error_message="It broke.")
        return events_read(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(service, "load_events", after_the_end)
        first = read(shop, execution)
    rest = read(shop, execution, first.events[-1].id)
    assert [event.data["state"] for event in (*first.events, *rest.events)] == ["PENDING", "FAILED"]
    assert rest.ended
