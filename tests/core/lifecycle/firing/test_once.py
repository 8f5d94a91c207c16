"""Executions at the scheduled time of a job or task."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import update

from core.errors import BadInput
from core.lifecycle.firing.once import execute_scheduled
from core.lifecycle.tasks.models import TaskCreate
from core.lifecycle.tasks.repository import TaskRepository
from core.tables import Job, Task, now
from tests.support.shop import Shop

HOUR = timedelta(hours=1)


def test_a_job_is_executed_once_for_each_time(shop: Shop) -> None:
    due = now() + HOUR
    shop.change_job(scheduled_time=due)
    execute_scheduled(shop.database, shop.settings, due - timedelta(seconds=1))
    assert shop.list_executions() == []
    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(execute_scheduled, shop.database, shop.settings, due) for _ in range(4)]:
            future.result()
    shop.change_job(scheduled_time=due)  # clients send whole records
    execute_scheduled(shop.database, shop.settings, due + HOUR)
    (execution,) = shop.list_executions()
    assert (execution.trigger, execution.tick_at) == ("scheduledTime", due)
    shop.change_job(scheduled_time=due + HOUR)
    execute_scheduled(shop.database, shop.settings, due + HOUR)
    shop.change_job(scheduled_time="")
    execute_scheduled(shop.database, shop.settings, due + 9 * HOUR)
    assert len(shop.list_executions()) == 2


def test_a_task_is_executed_once(shop: Shop) -> None:
    due = now() + HOUR
    with shop.database.write() as session:
        tasks = TaskRepository(session, shop.organization_id)
        task = tasks.create(shop.project_id, shop.job_id, TaskCreate(name="At noon", scheduled_time=due)).task
    for _ in range(2):
        execute_scheduled(shop.database, shop.settings, due)
    (execution,) = shop.list_executions()
    assert execution.task_id == task.id


def test_a_job_that_cannot_be_executed_then_is_not_tried_again(shop: Shop) -> None:
    due = now() + HOUR
    shop.change_job(scheduled_time=due)
    with shop.database.write() as session:
        session.execute(update(Job).values(enabled=False))
    execute_scheduled(shop.database, shop.settings, due)
    with shop.database.write() as session:
        session.execute(update(Job).values(enabled=True))
    execute_scheduled(shop.database, shop.settings, due)
    assert shop.list_executions() == []


def test_a_new_time_in_the_past_is_refused_and_an_unchanged_one_is_fine(shop: Shop) -> None:
    past = now() - HOUR
    with pytest.raises(BadInput) as refused:
        shop.change_job(scheduled_time=past)
    assert (refused.value.details[0].path, refused.value.details[0].code) == ("scheduledTime", "past-time")
    with shop.database.write() as session, pytest.raises(BadInput):
        TaskRepository(session, shop.organization_id).create(
            shop.project_id, shop.job_id, TaskCreate(name="late", scheduled_time=past)
        )
    with shop.database.write() as session:
        session.execute(update(Job).values(scheduled_time=past))
        session.execute(update(Task).values(scheduled_time=past))
    shop.change_job(scheduled_time=past)
