from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.errors import BadInput, Conflict, NotFound
from core.lifecycle.executions.outbox import fetch_due
from core.lifecycle.tasks.models import TaskCreate, TaskUpdate
from core.lifecycle.tasks.report import TaskWithExecution
from core.lifecycle.tasks.repository import TaskRepository
from core.tables import Task, now
from tests.support.cases import each_case
from tests.support.shop import Shop

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def create(shop: Shop, **values: Any) -> str:
    with shop.database.write() as session:
        tasks = TaskRepository(session, shop.organization_id)
        return str(tasks.create(shop.project_id, shop.job_id, TaskCreate(**{"name": "Nightly", **values})).task.id)


def get(shop: Shop, task_id: str) -> TaskWithExecution:
    with shop.database.read() as session:
        return TaskRepository(session, shop.organization_id).get(shop.project_id, shop.job_id, task_id)


def stop_task(shop: Shop, task_id: str) -> None:
    with shop.database.write() as session:
        TaskRepository(session, shop.organization_id).stop(shop.project_id, shop.job_id, task_id)


def test_pages(shop: Shop) -> None:
    ids = [int(create(shop)) for _ in range(3)]
    with shop.database.read() as session:
        tasks = TaskRepository(session, shop.organization_id)
        assert [each.task.id for each in tasks.list(shop.project_id, shop.job_id)] == ids
        page = tasks.list(shop.project_id, shop.job_id, limit=1, after=ids[0])
        assert [each.task.id for each in page] == [ids[1]]


def test_a_task_is_pending_until_it_is_started(shop: Shop) -> None:
    record = get(shop, create(shop))
    assert (record.status, record.progress, record.log) == ("PENDING", 0.0, None)
    metrics = record.read_metrics()
    assert metrics.pop("status") == "PENDING"
    assert set(metrics.values()) == {None}


def test_start_runs_the_job_for_the_task(shop: Shop) -> None:
    task_id = create(shop)
    execution = shop.submit(task_id=task_id)
    assert str(execution.task_id) == task_id
    assert get(shop, task_id).task.name == "Nightly"
    with shop.database.read() as session:
        assert [message.execution_id for message in fetch_due(session, now())] == [execution.id]
        assert session.query(Task).count() == 1
    shop.report(execution, "RUNNING", additional_metrics={"progress": {"fraction": 0.25}})
    record = get(shop, task_id)
    assert (record.status, record.progress) == ("RUNNING", 0.25)
    shop.complete(execution)
    record = get(shop, task_id)
    assert (record.status, record.progress) == ("COMPLETED", 1.0)


def test_a_running_task_is_not_started_again(shop: Shop) -> None:
    task_id = create(shop)
    first = shop.submit(task_id=task_id)
    with pytest.raises(Conflict, match="running already"):
        shop.submit(task_id=task_id)
    assert shop.active() == 1
    shop.report(first, "FAILED")
    assert shop.submit(task_id=task_id).id != first.id


def test_twenty_starts_at_once_start_one(shop: Shop) -> None:
    task_id = create(shop)

    def start(_: int) -> bool:
        try:
            shop.submit(task_id=task_id)
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(start, range(20))) == 1
    assert shop.active() == 1


def test_a_disabled_task_is_not_started(shop: Shop) -> None:
    with pytest.raises(Conflict, match="disabled"):
        shop.submit(task_id=create(shop, enabled=False))
    assert shop.active() == 0


def test_deleting_a_running_task_frees_its_slot_and_keeps_the_execution(shop: Shop) -> None:
    task_id = create(shop)
    execution = shop.submit(task_id=task_id)
    with shop.database.write() as session:
        TaskRepository(session, shop.organization_id).delete(shop.project_id, shop.job_id, task_id)
    stored = shop.reload(execution)
    assert (stored.state, stored.task_id) == ("CANCELLED", None)
    assert shop.active() == 0


def test_metrics_are_read_from_the_log(shop: Shop) -> None:
    execution = shop.submit()
    shop.report(execution, "RUNNING", started_at=START)
    shop.complete(
        execution,
        rows=7,
        completed_at=START + timedelta(seconds=90),
        records_processed=10,
        executor_count=2,
        error_count=1,
        total_cpu_time_seconds=80,
    )
    record = get(shop, str(execution.task_id))
    log = (record.log or "").splitlines()
    assert log[1:3] == ["2026-03-01T12:00:00Z Started.", "2026-03-01T12:01:30Z COMPLETED."]
    assert json.loads(log[-1])["recordsOutput"] == 7
    assert record.read_metrics() == {
        "status": "COMPLETED",
        "durationSeconds": 90,
        "startedAt": "2026-03-01T12:00:00Z",
        "completedAt": "2026-03-01T12:01:30Z",
        "recordsProcessed": 10,
        "recordsOutput": 7,
        "outputFileSizeBytes": None,
        "driverMemoryUsedBytes": None,
        "executorMemoryUsedBytes": None,
        "executorCount": 2,
        "totalCpuTimeSeconds": 80,
        "errorCount": 1,
        "warningCount": None,
    }


@each_case(
    ("log", "processed"),
    [
        ('Ran elsewhere.\n{"recordsProcessed": 5}\nDone.', 5),
        ('{"recordsProcessed": 4}\n{"recordsProcessed": 5}', 5),
        ("Ran elsewhere.", None),
        ("{broken", None),
        ("[1]\n{}", None),
        ("", None),
    ],
)
def test_a_log_that_a_client_wrote(shop: Shop, log: str, processed: int | None) -> None:
    record = get(shop, create(shop, execution_log=log))
    assert record.log == log
    assert record.read_metrics()["recordsProcessed"] == processed


@each_case("task_id", ["0", "-1", "1.0", "x", "", "²", "9" * 30, "2147483648", "\0"])
def test_ids_that_are_none(shop: Shop, task_id: str) -> None:
    with pytest.raises(NotFound, match="There is no task with this id"):
        get(shop, task_id)


def test_another_organizations_task_is_an_unknown_one(shop: Shop, other_shop: Shop) -> None:
    theirs = create(other_shop)
    other = Shop(shop.settings, shop.database, shop.organization_id, shop.project_id, shop.agent_id, shop.job_id)
    for act in (get, stop_task, lambda shop, task_id: shop.submit(task_id=task_id)):
        with pytest.raises(NotFound, match="There is no task with this id"):
            act(other, theirs)


def test_a_task_has_a_type_that_is_known_in_any_case(shop: Shop) -> None:
    with shop.database.write() as session:
        tasks = TaskRepository(session, shop.organization_id)
        made = tasks.create(shop.project_id, shop.job_id, TaskCreate(name="typed", task_type="browser")).task
        assert made.task_type == "BROWSER"
        for wrong in ("", "FLINK"):
            with pytest.raises(BadInput, match="SPARK, BROWSER, PYTHON"):
                tasks.create(shop.project_id, shop.job_id, TaskCreate(name="typed", task_type=wrong))
            with pytest.raises(BadInput, match="taskType"):
                tasks.update(shop.project_id, shop.job_id, str(made.id), TaskUpdate(task_type=wrong))
