"""The queue for drivers: organizations and projects take turns, and those of a project come as they were accepted."""

from __future__ import annotations

import os
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from core.infra.pidfile import hold_pidfile
from core.infra.settings import Settings
from driver.host_folder import OWN_SPARK
from orchestration.compute import capacity
from orchestration.compute.capacity import count_drivers, count_working, measure_machine
from orchestration.compute.driver_queue import DriverQueue, Ticket, get_pause
from orchestration.compute.protocol import LaunchFailed
from pipelines.contract.request import RunRequest
from pipelines.language.engines import EngineName
from tests.support.run_requests import make_request

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def make_queue(tmp_path: Path, engine: EngineName = EngineName.SPARK) -> DriverQueue:
    return DriverQueue(1, partial(count_working, tmp_path, engine))


def make(number: int, organization: str, project: str = "project") -> RunRequest:
    accepted = BEGIN + timedelta(seconds=number)
    return make_request(f"e{number}", organization_id=organization, project_id=project, accepted_at=accepted)


def serve(queue: DriverQueue, specs: list[RunRequest]) -> list[str]:
    """Let all wait, and return the executions in the order in which they get drivers."""
    served: list[str] = []
    waiting: dict[Ticket, ExitStack] = {}
    for spec in specs:
        stack = ExitStack()
        waiting[stack.enter_context(queue.join(spec))] = stack
    while waiting:
        turns: list[Ticket] = []
        for ticket in waiting:
            with queue.take_turn(ticket) as is_next:
                if is_next:
                    turns.append(ticket)
        (ticket,) = turns
        queue.end_turn(ticket)
        waiting.pop(ticket).close()
        served.append(ticket.attempt)
    return served


def test_executions_of_a_project_come_in_the_order_of_their_acceptance(tmp_path: Path) -> None:
    assert serve(make_queue(tmp_path), [make(number, "a") for number in (3, 1, 2)]) == ["e1.1", "e2.1", "e3.1"]


def test_organizations_and_their_projects_take_turns(tmp_path: Path) -> None:
    specs = [make(1, "a", "x"), make(2, "a", "x"), make(3, "a", "x"), make(4, "a", "y"), make(5, "b", "z")]
    assert serve(make_queue(tmp_path), specs) == ["e1.1", "e5.1", "e4.1", "e2.1", "e3.1"]


def test_many_of_one_organization_do_not_hold_up_the_one_of_another(tmp_path: Path) -> None:
    queue = make_queue(tmp_path)
    with ExitStack() as stack:
        first, *_ = [stack.enter_context(queue.join(make(number, "a", "x"))) for number in range(50)]
        other_project = stack.enter_context(queue.join(make(98, "a", "y")))
        other = stack.enter_context(queue.join(make(99, "b")))
        assert [queue.find_place(each) for each in (first, other, other_project)] == [0, 1, 2]
        queue.end_turn(first)
        assert [queue.find_place(each) for each in (other, other_project)] == [0, 1]


def test_a_failed_launch_was_a_turn(tmp_path: Path) -> None:
    def refuse(_waited: float) -> None:
        raise LaunchFailed("The cluster has no room.")

    queue = make_queue(tmp_path)
    with queue.join(make(2, "a")) as own, queue.join(make(3, "b")) as other:
        with pytest.raises(LaunchFailed):
            queue.serve(make(1, "a"), refuse, lambda _: True)
        assert [queue.find_place(each) for each in (other, own)] == [0, 1]


def test_one_that_is_just_getting_its_driver_has_not_waited_in_vain(tmp_path: Path) -> None:
    queue, spec = make_queue(tmp_path), make(1, "a")
    with queue.join(spec) as ticket:
        assert not queue.list_waiting(seconds=60)
        assert queue.list_waiting(seconds=-1) == [spec.spark]
        with queue.take_turn(ticket):
            assert not queue.list_waiting(seconds=-1)
        queue.end_turn(ticket)
        assert not queue.list_waiting(seconds=-1)


def test_executions_with_spark_and_without_do_not_wait_for_each_other(tmp_path: Path) -> None:
    (tmp_path / "drivers").mkdir()
    (tmp_path / "drivers/a.left.1").touch()  # by a run that was killed
    spark, local = make_queue(tmp_path), make_queue(tmp_path, EngineName.LOCAL)
    assert spark.has_room()
    assert local.has_room()
    with spark.join(make(1, "a")) as first, local.join(make(2, "a")) as second:
        for queue, ticket in ((spark, first), (local, second)):
            with queue.take_turn(ticket) as is_next:
                assert is_next
        with hold_pidfile(tmp_path / "drivers/a.e9.1"):
            assert (spark.has_room(), local.has_room()) == (True, False)
            (tmp_path / "scratch/e9.1").mkdir(parents=True)
            (tmp_path / "scratch/e9.1" / OWN_SPARK).touch()
            assert (spark.has_room(), local.has_room()) == (False, True)


def test_the_machine_and_the_settings_say_how_many_work_at_once() -> None:
    machine, most = Settings(), measure_machine() // 2**29
    assert count_drivers(machine, EngineName.LOCAL) == max(4, min(8 * (os.cpu_count() or 2), most))
    assert count_drivers(Settings(local_drivers=3), EngineName.LOCAL) == 3
    cluster = Settings(spark_master="spark://127.0.0.1:7077")
    assert count_drivers(cluster, EngineName.SPARK) is None
    assert count_drivers(cluster, EngineName.LOCAL) == count_drivers(machine, EngineName.LOCAL)


def test_many_look_less_often() -> None:
    assert get_pause(0) < get_pause(5) < get_pause(99) == get_pause(1000)


def test_a_container_has_the_memory_of_its_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limits = (tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes")
    monkeypatch.setattr(capacity, "CGROUP_LIMITS", limits)
    machine = measure_machine()
    limits[0].write_text("max\n")
    assert measure_machine() == machine
    for limit in limits:
        limit.write_text(f"{4 * 2**30}\n")
        assert measure_machine() == 4 * 2**30
        limit.unlink()
