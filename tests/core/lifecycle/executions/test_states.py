"""Every (state, event), as the table says; the table itself is printed and compared."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from core.errors import Conflict
from core.lifecycle.executions.reconcile import admit_waiting
from core.lifecycle.executions.reports import cancel, fail
from core.lifecycle.executions.retries import FailureCode
from core.lifecycle.executions.states import Trigger, get_next_state
from core.lifecycle.executions.transitions import MAX_CONCURRENT_EXECUTIONS, cancel_all, move
from core.tables import Execution, now
from core.tables.states import State
from tests.support.shop import Shop

TABLE = Path(__file__).with_name("states.txt")
REACH: dict[State, Sequence[Trigger]] = {
    State.QUEUED: [],
    State.PENDING: [],
    State.RUNNING: [Trigger.START],
    State.COMPLETED: [Trigger.START, Trigger.COMPLETE],
    State.FAILED: [Trigger.FAIL],
    State.CANCELLED: [Trigger.CANCEL],
}
REPORTS = (Trigger.START, Trigger.COMPLETE, Trigger.FAIL, Trigger.CANCEL)


def printed() -> str:
    rows = [["", *Trigger], *([state, *(get_next_state(state, event) or "-" for event in Trigger)] for state in State)]
    return "".join("".join([f"{row[0]:<12}", *(f"{cell:<11}" for cell in row[1:])]).rstrip() + "\n" for row in rows)


def test_the_table() -> None:
    assert printed() == TABLE.read_text()


def happen(shop: Shop, execution: Execution, event: Trigger) -> State:
    """The event as it really comes, and the state that is answered."""
    match event:
        case Trigger.ADMIT:
            return admit(shop, execution)
        case Trigger.START:
            return shop.report(execution, "RUNNING")
        case Trigger.COMPLETE:
            return shop.complete(execution)
        case Trigger.FAIL:
            return fail(shop.database, execution.id, "It broke.")
        case Trigger.CANCEL:
            return cancel(shop.database, shop.organization_id, execution.id, "It was stopped.")
        case Trigger.RETRY:
            try:
                return State(shop.retry(execution).state)
            except Conflict:
                return State(shop.reload(execution).state)
        case Trigger.REQUEUE:
            try:
                return State(shop.retry(execution, queue=True).state)
            except Conflict:
                return State(shop.reload(execution).state)
        case Trigger.POSTPONE:
            return lose_driver(shop, execution)


def lose_driver(shop: Shop, execution: Execution) -> State:
    """The current attempt is lost, and the job allows one retry more, after an hour."""
    current = shop.reload(execution)
    if get_next_state(State(current.state), Trigger.POSTPONE) is None:
        with shop.database.write() as session:
            move(session, session.get_one(Execution, execution.id), Trigger.POSTPONE)
        return State(shop.reload(execution).state)
    with shop.database.write() as session:
        allowed = {"max_retries": Execution.retries + 1, "retry_backoff_seconds": 3600}
        same = (Execution.id == execution.id, Execution.attempt == current.attempt)
        session.execute(update(Execution).where(*same).values(allowed))
    return fail(shop.database, execution.id, "It was lost.", current.attempt, FailureCode.DRIVER_LOST)


def admit(shop: Shop, execution: Execution) -> State:
    """A slot comes back to the project, and goes to this execution if it is waiting; the pause of a retry is over."""
    if shop.reload(execution).retry_at is not None:
        with shop.database.write() as session:
            session.execute(update(Execution).where(Execution.id == execution.id).values(retry_at=now()))
        admit_waiting(shop.database)
    elif shop.reload(execution).state == State.QUEUED:
        shop.free_one_slot()
    else:
        with shop.database.write() as session:
            move(session, session.get_one(Execution, execution.id), Trigger.ADMIT)
    return State(shop.reload(execution).state)


def arrive(shop: Shop, state: State) -> Execution:
    """An execution in this state."""
    if state is State.QUEUED:
        for _ in range(MAX_CONCURRENT_EXECUTIONS):
            shop.submit()
    execution = shop.submit(queue=state is State.QUEUED)
    for earlier in REACH[state]:
        happen(shop, execution, earlier)
    assert shop.reload(execution).state == state
    return execution


def fill(shop: Shop) -> None:
    """Takes all slots that are free: a retry that would wait then has to."""
    for _ in range(MAX_CONCURRENT_EXECUTIONS - shop.active()):
        shop.submit()


def held(shop: Shop) -> int:
    """The slots that the executions of the project hold by their states, which must be those that are counted."""
    with shop.database.read() as session:
        states = [State(state) for (state,) in session.query(Execution.state)]
    count = sum(state.holds_slot for state in states)
    assert shop.active() == count
    return count


def clear(shop: Shop) -> None:
    """Ends all that has not ended."""
    with shop.database.write() as session:
        cancel_all(session, Execution.project_id == shop.project_id, "Cleared away.")


@pytest.mark.long
@pytest.mark.parametrize("event", Trigger)
def test_every_pair_once_and_twice(shop: Shop, event: Trigger) -> None:
    for state in State:
        execution = arrive(shop, state)
        if event is Trigger.REQUEUE:
            fill(shop)
        before = shop.content(execution)
        expected = get_next_state(state, event) or state
        assert happen(shop, execution, event) == expected
        once = shop.content(execution)
        assert once["state"] == expected
        held(shop)
        if get_next_state(state, event) is None and not (state is State.RUNNING and event is Trigger.START):
            assert once == before
        assert happen(shop, execution, event) == expected
        assert without_heartbeat(shop.content(execution)) == without_heartbeat(once)
        held(shop)
        clear(shop)


def without_heartbeat(content: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name not in ("heartbeat_at", "updated_at")}


@pytest.mark.parametrize("end", [Trigger.COMPLETE, Trigger.FAIL, Trigger.CANCEL])
def test_reports_after_the_end_change_nothing(shop: Shop, end: Trigger) -> None:
    execution = shop.submit()
    ended = happen(shop, execution, end)
    before = shop.content(execution)
    for late in REPORTS:
        assert happen(shop, execution, late) == ended
    assert shop.content(execution) == before
    assert shop.active() == 0


@pytest.mark.parametrize("_round", range(3))
def test_events_from_twenty_threads_end_it_once(shop: Shop, _round: int) -> None:
    execution = shop.submit()
    others = [shop.submit() for _ in range(3)]
    events = [*REPORTS] * 5
    with ThreadPoolExecutor(20) as pool:
        seen = list(pool.map(lambda event: happen(shop, execution, event), events))
    ended = State(shop.reload(execution).state)
    assert ended.terminal
    assert {state for state in seen if state.terminal} == {ended}
    assert shop.active() == len(others)


@pytest.mark.long
@pytest.mark.parametrize("event", Trigger)
def test_one_event_from_eight_threads_counts_once(shop: Shop, event: Trigger) -> None:
    with ThreadPoolExecutor(8) as pool:
        for state in State:
            execution = arrive(shop, state)
            if event is Trigger.REQUEUE:
                fill(shop)
            before = shop.content(execution)
            seen = set(pool.map(lambda _, one=execution: happen(shop, one, event), range(8)))
            assert seen == {get_next_state(state, event) or state}
            after = shop.content(execution)
            retried = (
                event in (Trigger.RETRY, Trigger.REQUEUE, Trigger.POSTPONE) and get_next_state(state, event) is not None
            )
            assert (after["state"], after["attempt"]) == (seen.pop(), before["attempt"] + retried)
            held(shop)
            clear(shop)


def test_retries_among_ends_never_leak_a_slot(shop: Shop) -> None:
    execution = shop.submit()
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda event: happen(shop, execution, event), [Trigger.FAIL, Trigger.RETRY, Trigger.CANCEL] * 10))
    held(shop)
    happen(shop, execution, Trigger.CANCEL)
    assert shop.active() == 0
