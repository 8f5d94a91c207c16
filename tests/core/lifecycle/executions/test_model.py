"""Random sequences of events against a model of five lines."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from core.infra.database import open_database
from core.infra.migrations import migrate
from core.infra.settings import Settings
from core.lifecycle.executions.states import TRANSITIONS, Trigger
from core.tables.states import State
from tests.core.lifecycle.executions.test_states import happen
from tests.support.shop import Shop, make_shop


@pytest.fixture(scope="module")
def one_shop() -> Iterator[Shop]:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data=Path(folder))
        migrate(settings)
        database = open_database(settings)
        yield make_shop(settings, database)
        database.close()


def follow(shop: Shop, events: list[tuple[int, Trigger]]) -> None:
    """Two executions side by side: each in its own state, and the slots are those of the ones that hold one."""
    executions = [shop.submit(), shop.submit()]
    states = [State.PENDING, State.PENDING]
    for which, event in events:
        meant = Trigger.RETRY if event is Trigger.REQUEUE else event  # a slot is free: a retry that would wait need not
        states[which] = TRANSITIONS.get((states[which], meant), states[which])
        assert happen(shop, executions[which], event) == states[which]
    assert shop.active() == sum(state.holds_slot for state in states)
    for execution in executions:
        happen(shop, execution, Trigger.CANCEL)
    assert shop.active() == 0


EVENTS = st.tuples(st.integers(0, 1), st.sampled_from(Trigger))


@hypothesis_settings(max_examples=30)
@given(events=st.lists(EVENTS, max_size=10))
def test_any_sequence(one_shop: Shop, events: list[tuple[int, Trigger]]) -> None:
    follow(one_shop, events)


@pytest.mark.long
@hypothesis_settings(max_examples=50)
@given(events=st.lists(EVENTS, min_size=50, max_size=50))
def test_long_sequences(one_shop: Shop, events: list[tuple[int, Trigger]]) -> None:
    follow(one_shop, events)
