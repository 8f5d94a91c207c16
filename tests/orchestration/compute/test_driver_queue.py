"""The queue for drivers: organizations and projects take turns, and those of a project come as they were accepted."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from driver.spec import ExecutionSpec
from orchestration.compute.driver_queue import DriverQueue, Ticket, get_pause, has_waited

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def make(number: int, organization: str, project: str = "project") -> ExecutionSpec:
    fields = {"execution_id": f"e{number}", "accepted_at": BEGIN + timedelta(seconds=number), "project_id": project}
    output = {"path": "nowhere"}
    names = {"job_id": "job", "job_name": "job", "attempt": 1, "pipeline_yaml": "", "organization_id": organization}
    return ExecutionSpec.model_validate({**fields, **names, "output": output})


def serve(queue: DriverQueue, specs: list[ExecutionSpec]) -> list[str]:
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
    assert serve(DriverQueue(tmp_path), [make(number, "a") for number in (3, 1, 2)]) == ["e1.1", "e2.1", "e3.1"]


def test_organizations_and_their_projects_take_turns(tmp_path: Path) -> None:
    specs = [make(1, "a", "x"), make(2, "a", "x"), make(3, "a", "x"), make(4, "a", "y"), make(5, "b", "z")]
    assert serve(DriverQueue(tmp_path), specs) == ["e1.1", "e5.1", "e4.1", "e2.1", "e3.1"]


def test_a_killed_one_is_passed_over(tmp_path: Path) -> None:
    queue = DriverQueue(tmp_path)
    with queue.join(make(2, "a")) as ticket:
        (tmp_path / "queue" / "a@project@00000000000000000001@e1.1").write_text("1\n")
        with queue.take_turn(ticket) as is_next:
            assert is_next
    assert [path.name for path in (tmp_path / "queue").iterdir()] == ["turns"]


def test_one_that_is_just_getting_its_driver_has_not_waited_in_vain(tmp_path: Path) -> None:
    queue = DriverQueue(tmp_path)
    with queue.join(make(1, "a")) as ticket:
        assert not has_waited(tmp_path, seconds=60)
        assert has_waited(tmp_path, seconds=-1)
        with queue.take_turn(ticket):
            assert not has_waited(tmp_path, seconds=-1)
        queue.end_turn(ticket)
        assert not has_waited(tmp_path, seconds=-1)


def test_many_look_less_often() -> None:
    assert get_pause(0) < get_pause(5) < get_pause(100) == get_pause(1000)
