"""Leases on hosts: what the driver grants and takes back, with a clock of the test's own."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.coordination.budgets import Budgets, Message
from tests.support.clock import Clock

SHOP = "http://shop.test"


@pytest.fixture
def clock() -> Clock:
    return Clock()


def budgets(clock: Clock, places: int = 16, delay: float = 0) -> Budgets:
    made = Budgets(places, clock)
    made.open(SHOP, delay)
    return made


def granted(messages: list[Message]) -> dict[str, Any]:
    return {task: message["places"] for task, message in messages if "grant" in message}


def recalled(messages: list[Message]) -> dict[str, Any]:
    return {task: message["places"] for task, message in messages if "recall" in message}


def test_a_task_alone_gets_all_places(clock: Clock) -> None:
    assert granted(budgets(clock).want("a", SHOP, 16)) == {"a": 16}


def test_a_second_task_gets_half_of_them_as_they_become_free(clock: Clock) -> None:
    shared = budgets(clock)
    shared.want("a", SHOP, 16)
    messages = shared.want("b", SHOP, 16)
    assert (granted(messages), recalled(messages)) == ({}, {"a": 8})
    assert granted(shared.give_back("a", SHOP, 3, 3)) == {"b": 3}
    messages = shared.give_back("a", SHOP, 5, 8)
    assert (granted(messages), recalled(messages)) == ({"b": 5}, {})


def test_places_are_never_given_out_twice(clock: Clock) -> None:
    shared, held = budgets(clock, 5), dict[str, int]()

    def count(messages: list[Message]) -> None:
        for task, places in granted(messages).items():
            held[task] = held.get(task, 0) + places
        assert sum(held.values()) <= 5
        for task, places in recalled(messages).items():
            back = min(places, held.get(task, 0))
            if back:
                held[task] -= back
                count(shared.give_back(task, SHOP, back, 5 - held[task]))

    for number in range(12):
        count(shared.want(f"t{number}", SHOP, 5))
        assert sum(held.values()) == 5
    for number in range(12):
        held.pop(f"t{number}", None)
        count(shared.gone(f"t{number}"))
        assert number == 11 or sum(held.values()) == 5


def test_what_a_task_held_is_free_when_it_is_gone(clock: Clock) -> None:
    shared = budgets(clock)
    shared.want("a", SHOP, 16)
    shared.want("b", SHOP, 16)
    assert granted(shared.gone("a")) == {"b": 16}
    assert shared.gone("b") == []


def test_a_task_that_waits_no_longer_gets_nothing(clock: Clock) -> None:
    shared = budgets(clock)
    shared.want("a", SHOP, 16)
    shared.want("b", SHOP, 16)
    shared.want("c", SHOP, 16)
    shared.give_back("b", SHOP, 0, 0)
    assert granted(shared.gone("a")) == {"c": 16}


def test_with_a_delay_each_request_has_its_moment(clock: Clock) -> None:
    shared = budgets(clock, delay=0.5)
    (a,) = shared.want("a", SHOP, 16)
    (b,) = shared.want("b", SHOP, 16)
    assert a == ("a", {"grant": SHOP, "places": 2, "starts": [0.0, 0.5]})
    assert b == ("b", {"grant": SHOP, "places": 2, "starts": [1.0, 1.5]})
    clock.now += 10
    assert shared.give_back("a", SHOP, 2, None) == []
    ((task, message),) = shared.want("a", SHOP, 16)
    assert (task, message["starts"][0]) == ("a", 0.0)


def test_a_long_delay_gives_one_at_a_time(clock: Clock) -> None:
    shared = budgets(clock, delay=10)
    starts = [message["starts"] for name in "abc" for _, message in shared.want(name, SHOP, 16)]
    assert starts == [[0.0], [10.0], [20.0]]


def test_with_a_delay_no_more_run_at_a_time_than_there_are_places(clock: Clock) -> None:
    shared = budgets(clock, places=2, delay=0.1)
    assert granted(shared.want("a", SHOP, 16)) == {"a": 2}
    assert granted(shared.want("b", SHOP, 16)) == {}
    assert granted(shared.give_back("a", SHOP, 1, 0)) == {"b": 1}


@pytest.mark.parametrize("delay", [0, 5])
def test_who_holds_a_place_is_told_once_that_others_have_none(delay: float, clock: Clock) -> None:
    shared = budgets(clock, places=1, delay=delay)
    shared.want("a", SHOP, 1)
    assert shared.want("b", SHOP, 1) == [("a", {"recall": SHOP, "places": 0})]
    assert shared.want("c", SHOP, 1) == []
    assert granted(shared.give_back("a", SHOP, 1, 0)) == {"b": 1}


def test_an_overloaded_host_is_left_alone_by_all(clock: Clock) -> None:
    shared = budgets(clock)
    shared.want("a", SHOP, 16)
    shared.want("b", SHOP, 16)
    assert shared.back_off(SHOP, 3) == [("a", {"pause": SHOP, "seconds": 3}), ("b", {"pause": SHOP, "seconds": 3})]
    assert shared.back_off(SHOP, 2) == []
    assert shared.paused(SHOP) == 3
    clock.now += 5
    assert shared.paused(SHOP) == 0


def test_pauses_grow_while_the_host_stays_overloaded(clock: Clock) -> None:
    shared = budgets(clock)
    shared.want("a", SHOP, 16)
    found: list[float] = []
    for _ in range(8):
        ((_, message),) = shared.back_off(SHOP, 1)
        found.append(message["seconds"])
        clock.now += message["seconds"] + 0.5
    assert found == [1, 2, 4, 8, 16, 32, 60, 60]
    clock.now += 200
    ((_, message),) = shared.back_off(SHOP, 1)
    assert message["seconds"] == 1


def test_no_start_falls_into_a_pause(clock: Clock) -> None:
    shared = budgets(clock, delay=1)
    shared.want("a", SHOP, 1)
    shared.back_off(SHOP, 30)
    ((_, message),) = shared.want("b", SHOP, 1)
    assert message["starts"] == [30.0]


def test_starts_that_others_hold_are_put_off_when_a_request_begins_after_its_own(clock: Clock) -> None:
    """One begins 0.9 s after its start: the next ones keep their distance of a second from it, and from each other."""
    shared = budgets(clock, delay=1.0)
    starts = {task: shared.want(task, SHOP, 1)[0][1]["starts"] for task in ("a", "b", "c")}
    assert starts == {"a": [0.0], "b": [1.0], "c": [2.0]}
    clock.now += 0.9
    put_off = shared.late("a", SHOP)
    assert put_off == [("b", {"putOff": SHOP, "seconds": 1.0}), ("c", {"putOff": SHOP, "seconds": 2.0})]
    assert shared.want("d", SHOP, 1)[0][1]["starts"] == [pytest.approx(3.0)]
