"""Who asks for which page: what the driver tells tasks, with a clock of the test's own, and a law for any order."""

from __future__ import annotations

import sys
from array import array
from collections import deque
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pipelines.coordination.budgets import Message
from pipelines.coordination.owners import PATIENCE, Owners, hexed, pages
from tests.support.clock import Clock

PLACE = ["/pages/1.pages", 4096]
ONE, TWO = 1, 2**64 - 1


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def owners(clock: Clock) -> Owners:
    return Owners(clock)


def said(kind: str, *keys: int, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "keys": hexed(array("Q", keys)), **fields}


def told(messages: list[Message]) -> list[tuple[str, str, list[int]]]:
    """To whom, what, of which pages."""
    kinds = ("taken", "wanted", "kept", "moved", "yours")
    return [(task, kind, list(pages(each[kind]))) for task, each in messages for kind in kinds if kind in each]


def test_what_nobody_has_is_the_first_ones_who_claims_it(owners: Owners) -> None:
    assert told(owners.take("a", said("claim", ONE, TWO))) == [("a", "taken", [])]
    assert told(owners.take("a", said("claim", ONE))) == [("a", "taken", [])]


def test_an_owner_hears_once_that_others_wait(owners: Owners) -> None:
    owners.take("a", said("claim", ONE, TWO))
    assert told(owners.take("b", said("claim", TWO))) == [("b", "taken", [TWO]), ("a", "wanted", [TWO])]
    assert told(owners.take("c", said("claim", TWO, 3))) == [("c", "taken", [TWO])]


def test_a_page_that_is_kept_is_everybodys(owners: Owners) -> None:
    owners.take("a", said("claim", ONE))
    for task in "bc":
        owners.take(task, said("claim", ONE))
    messages = owners.take("a", said("over", ONE, place=PLACE))
    assert told(messages) == [("b", "kept", [ONE]), ("c", "kept", [ONE])]
    assert all(message["place"] == PLACE for _, message in messages)


def test_of_a_page_that_was_over_before_the_owner_is_asked_again(owners: Owners) -> None:
    owners.take("a", said("claim", ONE))
    for task in "bc":
        assert told(owners.take(task, said("claim", ONE))) == [(task, "taken", [ONE]), ("a", "wanted", [ONE])]
        assert told(owners.take("a", said("over", ONE, place=PLACE))) == [(task, "kept", [ONE])]


def test_a_page_that_failed_is_asked_for_by_all_who_have_waited(owners: Owners) -> None:
    for task in "abcd":
        owners.take(task, said("claim", ONE))
    failed = said("over", ONE, place=None)
    assert told(owners.take("a", failed)) == [(task, "yours", [ONE]) for task in "bcd"]
    assert owners.take("a", failed) == []
    assert told(owners.take("a", said("claim", ONE))) == [("a", "taken", [ONE]), ("b", "wanted", [ONE])]
    assert owners.take("c", failed) == []
    assert told(owners.take("b", said("over", ONE, place=PLACE))) == [("a", "kept", [ONE])]


def test_where_a_page_redirects_all_go_on_and_the_owner_remains(owners: Owners) -> None:
    for task in "abc":
        owners.take(task, said("claim", ONE))
    messages = owners.take("a", said("moved", ONE, address="http://shop.test/"))
    assert told(messages) == [("b", "moved", [ONE]), ("c", "moved", [ONE])]
    assert told(owners.take("b", said("claim", ONE))) == [("b", "taken", [ONE]), ("a", "wanted", [ONE])]


def test_what_an_owner_that_is_gone_had_is_looked_for_by_who_has_it_next(owners: Owners) -> None:
    for task in "abc":
        owners.take(task, said("claim", ONE))
    owners.take("a", said("claim", TWO))
    messages = owners.gone("a")
    assert told(messages) == [("b", "yours", [ONE]), ("b", "wanted", [ONE])]
    lost = messages[0][1]["lost"]
    messages = owners.take("c", said("claim", TWO))
    assert told(messages) == [("c", "taken", [TWO]), ("c", "yours", [TWO])]
    assert messages[1][1]["lost"] == lost > 0


def test_who_is_gone_waits_no_more(owners: Owners) -> None:
    for task in "abc":
        owners.take(task, said("claim", ONE))
    assert owners.gone("b") == []
    assert told(owners.take("a", said("over", ONE, place=None))) == [("c", "yours", [ONE])]
    assert owners.gone("never seen") == []


def test_an_owner_that_gives_no_sign_of_life_loses_what_others_wait_for(owners: Owners, clock: Clock) -> None:
    owners.take("a", said("claim", ONE, TWO))
    owners.take("b", said("claim", ONE, TWO))
    clock.now += PATIENCE - 1
    assert told(owners.take("b", said("still", ONE, TWO))) == [("a", "wanted", [])]
    owners.take("a", said("here"))
    clock.now += 2 * PATIENCE  # in which nobody asked it
    assert told(owners.take("b", said("still", ONE, TWO))) == [("a", "wanted", [])]
    clock.now += PATIENCE
    messages = owners.take("b", said("still", ONE, TWO))
    assert told(messages) == [("b", "yours", [ONE]), ("b", "yours", [TWO])]
    assert messages[0][1]["lost"] == messages[1][1]["lost"] == 1
    assert owners.take("a", said("over", ONE, place=None)) == []
    assert owners.take("b", said("still", ONE)) == []


def test_once_nobody_is_left_all_is_forgotten(owners: Owners) -> None:
    owners.take("a", said("claim", ONE))
    owners.gone("a")
    assert told(owners.take("b", said("claim", ONE))) == [("b", "taken", [])]


def test_a_page_that_nobody_else_wants_takes_a_hundred_bytes(owners: Owners) -> None:
    number = 200_000
    for first in range(0, number, 100):
        owners.take("a", said("claim", *(key << 40 | 1 for key in range(first, first + 100))))
    table = owners._owners
    assert (sys.getsizeof(table) + sum(map(sys.getsizeof, table))) / number < 100


class Task:
    """What a task knows and has said; messages take their time both ways."""

    def __init__(self, name: str, kept: set[int]) -> None:
        self.name = name
        self.known = set(kept)
        self.asking, self.waiting, self.wanted = set[int](), set[int](), set[int]()
        self.answered = True
        self.sent, self.received = deque[dict[str, Any]](), deque[dict[str, Any]]()

    def claim(self, keys: set[int]) -> None:
        self.claimed, self.answered = keys - self.known - self.asking - self.waiting, False
        self.sent.append(said("claim", *self.claimed))

    def take(self, message: dict[str, Any], kept: set[int]) -> None:
        match message:
            case {"taken": text}:
                self.answered = True
                self.waiting |= set(pages(text))
                self.asking |= self.claimed - self.waiting
            case {"wanted": text}:
                for key in pages(text):
                    if key in self.asking:
                        self.wanted.add(key)
                    else:
                        self.sent.append(said("over", key, place=PLACE if key in self.known else None))
            case {"kept": text}:
                self.waiting -= set(pages(text))
                self.known |= set(pages(text))
            case {"moved": text}:
                self.waiting -= set(pages(text))
            case _:
                [key] = pages(message["yours"])
                self.waiting.remove(key)
                (self.known if key in kept else self.asking).add(key)

    def end(self, key: int, how: str) -> None:
        self.asking.remove(key)
        if how == "kept":
            self.known.add(key)
        if key in self.wanted:
            self.wanted.remove(key)
            place = PLACE if how == "kept" else None
            self.sent.append(said("moved", key, address="") if how == "moved" else said("over", key, place=place))


class AnyOrder(RuleBasedStateMachine):
    """Tasks come, claim, bring pages or fail, and go, as their messages pass each other."""

    def __init__(self) -> None:
        super().__init__()
        self.owners = Owners()
        self.kept = set[int]()
        self.failed = set[int]()
        self.tasks: list[Task] = []
        self.names = 0

    @precondition(lambda self: len(self.tasks) < 4)
    @rule()
    def comes(self) -> None:
        self.names += 1
        name = str(self.names)
        assert self.owners.take(name, said("claim")) == [(name, {"taken": ""})]
        self.tasks.append(Task(name, self.kept))

    @precondition(lambda self: self.tasks)
    @rule(at=st.integers(0, 3), keys=st.sets(st.integers(0, 2), min_size=1))
    def claims(self, at: int, keys: set[int]) -> None:
        task = self.tasks[at % len(self.tasks)]
        if task.answered:
            task.claim(keys)

    @precondition(lambda self: any(task.asking for task in self.tasks))
    @rule(at=st.integers(0, 3), how=st.sampled_from(["kept", "kept", "failed", "moved"]))
    def ends(self, at: int, how: str) -> None:
        asking = [task for task in self.tasks if task.asking and task.answered]
        if asking:
            task = asking[at % len(asking)]
            key = min(task.asking)
            task.end(key, how)
            self.kept |= {key} if how == "kept" else set()
            self.failed |= {key} if how == "failed" else set()

    @precondition(lambda self: any(task.sent for task in self.tasks))
    @rule(at=st.integers(0, 3))
    def is_heard(self, at: int) -> None:
        sending = [task for task in self.tasks if task.sent]
        task = sending[at % len(sending)]
        self.pass_on(self.owners.take(task.name, task.sent.popleft()))

    @precondition(lambda self: any(task.received for task in self.tasks))
    @rule(at=st.integers(0, 3))
    def hears(self, at: int) -> None:
        hearing = [task for task in self.tasks if task.received]
        task = hearing[at % len(hearing)]
        task.take(task.received.popleft(), self.kept)

    @precondition(lambda self: len(self.tasks) > 2)
    @rule(at=st.integers(0, 3), suddenly=st.booleans())
    def goes(self, at: int, suddenly: bool) -> None:
        task = self.tasks.pop(at % len(self.tasks))
        while task.sent and not suddenly:
            self.pass_on(self.owners.take(task.name, task.sent.popleft()))
        self.pass_on(self.owners.gone(task.name))

    def pass_on(self, messages: list[Message]) -> None:
        for name, message in messages:
            for task in self.tasks:
                if task.name == name:
                    task.received.append(message)

    @invariant()
    def nobody_asks_for_what_another_asks_for_or_has_kept(self) -> None:
        """But for what has failed, which each may try."""
        asked = [key for task in self.tasks for key in task.asking if key not in self.failed]
        assert len(asked) == len(set(asked))
        assert not self.kept & set(asked)

    def teardown(self) -> None:
        """Nobody waits for ever: once each page that is asked for has come, or failed, all have been told."""
        for turn in range(1000):
            for at in range(len(self.tasks)):
                self.ends(at, "kept" if turn % 2 else "failed")
                if any(task.sent for task in self.tasks):
                    self.is_heard(at)
                if any(task.received for task in self.tasks):
                    self.hears(at)
        assert all(task.answered and not task.waiting and not task.asking for task in self.tasks)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
