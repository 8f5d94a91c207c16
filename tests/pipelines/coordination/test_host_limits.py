"""Limits of hosts over all tasks, with fake tasks and a fake clock."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pipelines.coordination.host_limits import HostLimits
from pipelines.coordination.messages import DriverMessage, Grant, Pause, Recall
from tests.support.clock import Clock

SHOP = "http://shop.test"


@dataclass(eq=False)
class FakeTask:
    received: list[DriverMessage] = field(default_factory=list[DriverMessage])

    def send(self, message: DriverMessage) -> None:
        self.received.append(message)

    def take(self) -> list[DriverMessage]:
        """The messages since the last call."""
        received, self.received = self.received, []
        return received


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tasks() -> list[FakeTask]:
    return [FakeTask() for _ in range(20)]


def limits(clock: Clock, per_host: int = 16, delay: float = 0) -> HostLimits:
    made = HostLimits(per_host, clock)
    made.open(SHOP, delay)
    return made


def granted(*tasks: FakeTask) -> list[int]:
    """Slots that each task got since the last call."""
    return [sum(message.slots for message in task.take() if isinstance(message, Grant)) for task in tasks]


def test_single_task_gets_all_slots(clock: Clock, tasks: list[FakeTask]) -> None:
    limits(clock).acquire(tasks[0], SHOP, 16)
    assert tasks[0].take() == [Grant(SHOP, 16, keep=16)]


def test_second_task_gets_half_of_the_slots_as_they_are_returned(clock: Clock, tasks: list[FakeTask]) -> None:
    a, b, *_ = tasks
    shared = limits(clock)
    shared.acquire(a, SHOP, 16)
    a.take()
    shared.acquire(b, SHOP, 16)
    assert (a.take(), b.take()) == ([Recall(SHOP, 8)], [])
    shared.release(a, SHOP, 3)
    assert b.take() == [Grant(SHOP, 3, keep=3)]
    shared.acquire(b, SHOP, 13)
    shared.release(a, SHOP, 5)
    assert (a.take(), b.take()) == ([], [Grant(SHOP, 5, keep=8)])


def test_remaining_slots_go_to_tasks_that_want_more_than_their_share(clock: Clock, tasks: list[FakeTask]) -> None:
    shared = limits(clock)
    for task in tasks[:9]:
        shared.acquire(task, SHOP, 1)
    assert granted(*tasks[:9]) == [1] * 9
    shared.acquire(tasks[0], SHOP, 16)
    assert granted(tasks[0]) == [7]


def test_more_slots_than_the_limit_are_never_granted(clock: Clock, tasks: list[FakeTask]) -> None:
    shared, held = limits(clock, 5), dict.fromkeys(range(12), 0)

    def settle() -> None:
        """Count grants and obey recalls until no task has a message."""
        while any(task.received for task in tasks):
            for number in held:
                for message in tasks[number].take():
                    if isinstance(message, Grant):
                        held[number] += message.slots
                    assert sum(held.values()) <= 5
                    surplus = held[number] - message.keep if isinstance(message, Recall) else 0
                    if surplus > 0:
                        held[number] -= surplus
                        shared.release(tasks[number], SHOP, surplus)

    for number in range(12):
        for each in range(number + 1):  # all tasks want as many as they can get
            shared.acquire(tasks[each], SHOP, 5)
        settle()
        assert sum(held.values()) == 5 or number >= 5  # else slots are on their way to other tasks
    for number in range(11):
        del held[number]
        tasks[number].take()
        shared.remove(tasks[number], {SHOP})
        settle()
        for each in held:
            shared.acquire(tasks[each], SHOP, 5)
        settle()
        assert sum(held.values()) == 5 or number < 7


def test_slots_rotate_when_there_are_more_tasks_than_slots(clock: Clock, tasks: list[FakeTask]) -> None:
    a, b, c, *_ = tasks
    shared = limits(clock, per_host=2)
    for task in (a, b):
        shared.acquire(task, SHOP, 1)
        task.take()
    shared.acquire(c, SHOP, 2)
    assert (a.take(), b.take()) == ([Recall(SHOP, 0)], [Recall(SHOP, 0)])
    shared.release(a, SHOP, 1)
    assert c.take() == [Grant(SHOP, 1, keep=1)]
    shared.acquire(a, SHOP, 2)
    assert c.take() == [Recall(SHOP, 0)]


def test_slots_of_an_ended_task_are_free(clock: Clock, tasks: list[FakeTask]) -> None:
    a, b, *_ = tasks
    shared = limits(clock)
    shared.acquire(a, SHOP, 16)
    shared.acquire(b, SHOP, 16)
    shared.remove(a, {SHOP, "http://never-opened.test"})
    assert granted(b) == [16]
    shared.remove(b, {SHOP})
    assert b.take() == []


class TestDelay:
    def test_one_task_at_a_time_has_the_turn_to_start_a_request(self, clock: Clock, tasks: list[FakeTask]) -> None:
        a, b, *_ = tasks
        shared = limits(clock, delay=10)
        shared.acquire(a, SHOP, 16)
        shared.acquire(b, SHOP, 16)
        assert (a.take(), b.take()) == ([Grant(SHOP, 1)], [])
        clock.now += 3  # the task begins its request late: the delay counts from then
        shared.release(a, SHOP, 0, turn=True)
        assert b.take() == [Grant(SHOP, 1, wait=10)]
        clock.now += 25
        shared.release(b, SHOP, 0, turn=True)
        clock.now += 15
        shared.acquire(a, SHOP, 16)
        assert a.take() == [Grant(SHOP, 1, wait=0)]

    def test_several_starts_are_granted_at_once_when_it_is_tiny(self, clock: Clock, tasks: list[FakeTask]) -> None:
        limits(clock, delay=0.01).acquire(tasks[0], SHOP, 16)
        assert granted(tasks[0]) == [5]

    def test_parallel_requests_stay_limited(self, clock: Clock, tasks: list[FakeTask]) -> None:
        a, b, *_ = tasks
        shared = limits(clock, per_host=1, delay=0.1)
        shared.acquire(a, SHOP, 16)
        shared.acquire(b, SHOP, 16)
        shared.release(a, SHOP, 0, turn=True)
        assert granted(a, b) == [1, 0]
        shared.release(a, SHOP, 1)
        assert granted(b) == [1]

    def test_no_request_starts_during_a_pause(self, clock: Clock, tasks: list[FakeTask]) -> None:
        a, b, *_ = tasks
        shared = limits(clock, delay=1)
        shared.acquire(a, SHOP, 1)
        shared.release(a, SHOP, 0, turn=True)
        shared.pause(SHOP, 30, [])
        shared.acquire(b, SHOP, 1)
        assert b.take() == [Grant(SHOP, 1, wait=30)]


def test_all_tasks_pause_for_an_overloaded_host(clock: Clock, tasks: list[FakeTask]) -> None:
    shared, told = limits(clock), tasks[:2]
    shared.pause(SHOP, 3, told)
    shared.pause(SHOP, 2, told)  # another request in flight
    assert [task.take() for task in told] == [[Pause(SHOP, 3)]] * 2
    assert shared.get_pause(SHOP) == 3
    clock.now += 5
    assert shared.get_pause(SHOP) == 0


def test_pauses_double_while_the_host_stays_overloaded(clock: Clock, tasks: list[FakeTask]) -> None:
    shared, found = limits(clock), list[float]()
    for _ in range(8):
        shared.pause(SHOP, 1, tasks[:1])
        found.append(shared.get_pause(SHOP))
        clock.now += found[-1] + 0.5
    assert found == [1, 2, 4, 8, 16, 32, 60, 60]
    clock.now += 200
    shared.pause(SHOP, 1, tasks[:1])
    assert shared.get_pause(SHOP) == 1
