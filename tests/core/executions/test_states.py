"""Every (state, event), as the table says; the table itself is printed and compared."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from core.executions.complete import cancel, fail
from core.executions.states import Event, State, next_state
from core.tables import Execution
from tests.core.shop import Shop

TABLE = """\
            START      COMPLETE   FAIL       CANCEL
PENDING     RUNNING    COMPLETED  FAILED     CANCELLED
RUNNING     -          COMPLETED  FAILED     CANCELLED
COMPLETED   -          -          -          -
FAILED      -          -          -          -
CANCELLED   -          -          -          -
"""


def printed() -> str:
    rows = [["", *Event], *([state, *(next_state(state, event) or "-" for event in Event)] for state in State)]
    return "".join(f"{row[0]:<12}" + "".join(f"{cell:<11}" for cell in row[1:]).rstrip() + "\n" for row in rows)


def test_the_table() -> None:
    assert printed() == TABLE


def happen(shop: Shop, execution: Execution, event: Event) -> State:
    match event:
        case Event.START:
            return shop.report(execution, "RUNNING")
        case Event.COMPLETE:
            return shop.complete(execution)
        case Event.FAIL:
            return fail(shop.database, execution.id, "It broke.")
        case Event.CANCEL:
            return cancel(shop.database, shop.organization_id, execution.id, "It was stopped.")


REACH = {
    State.PENDING: [],
    State.RUNNING: [Event.START],
    State.COMPLETED: [Event.START, Event.COMPLETE],
    State.FAILED: [Event.FAIL],
    State.CANCELLED: [Event.CANCEL],
}


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", State)
def test_every_pair(shop: Shop, state: State, event: Event) -> None:
    execution = shop.submit()
    for earlier in REACH[state]:
        happen(shop, execution, earlier)
    before = shop.content(execution)
    assert before["state"] == state

    expected = next_state(state, event) or state
    assert happen(shop, execution, event) == expected
    after = shop.content(execution)
    assert after["state"] == expected
    assert shop.active() == (0 if expected.terminal else 1)
    if state.terminal:
        assert after == before


@pytest.mark.parametrize("event", Event)
def test_an_event_that_arrives_twice_counts_once(shop: Shop, event: Event) -> None:
    execution = shop.submit()
    first = happen(shop, execution, event)
    once = shop.content(execution)
    assert happen(shop, execution, event) == first
    twice = shop.content(execution)
    if first.terminal:
        assert once == twice
    assert shop.active() == (0 if first.terminal else 1)


@pytest.mark.parametrize("end", [Event.COMPLETE, Event.FAIL, Event.CANCEL])
def test_a_late_start_changes_nothing(shop: Shop, end: Event) -> None:
    execution = shop.submit()
    ended = happen(shop, execution, end)
    assert happen(shop, execution, Event.START) == ended
    assert shop.active() == 0


@pytest.mark.parametrize("_round", range(3))
def test_events_from_twenty_threads_end_it_once(shop: Shop, _round: int) -> None:
    execution = shop.submit()
    others = [shop.submit() for _ in range(3)]
    events = [*Event] * 5
    with ThreadPoolExecutor(20) as pool:
        seen = list(pool.map(lambda event: happen(shop, execution, event), events))
    ended = State(shop.reload(execution).state)
    assert ended.terminal
    assert {state for state in seen if state.terminal} == {ended}
    assert shop.active() == len(others)
