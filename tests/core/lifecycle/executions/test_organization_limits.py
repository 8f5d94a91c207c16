"""What an organization may begin at once and in a day, over its projects and by whoever asks at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select, update

from core.definitions.identity.limits import LimitsUpdate, change_limits
from core.definitions.jobs.repository import JobRepository
from core.errors import Conflict, DailyLimit, TooMany
from core.infra.database import Database
from core.lifecycle.executions.organization_limits import count_active
from core.lifecycle.executions.reconcile import admit_waiting
from core.tables import Dataset, Execution, OrganizationLimits, now
from core.tables.states import State
from tests.support.shop import Shop


def limit(shop: Shop, **limits: int) -> None:
    with shop.database.write() as session:
        change_limits(session, shop.organization_id, LimitsUpdate(**limits))


def test_those_at_once_are_of_all_projects_and_wait_in_order(shop: Shop) -> None:
    other = shop.add_project("other")
    limit(shop, executions_at_once=2)
    first, second = shop.submit(), other.submit()
    with pytest.raises(TooMany, match="organization has as many executions") as refused:
        shop.submit()
    assert refused.value.details[0].code == "execution-limit"
    third, fourth = other.submit(queue=True), shop.submit(queue=True)
    assert shop.list_states(third, fourth) == ["QUEUED", "QUEUED"]
    assert [shop.list_obstacles(each) for each in (third, first)] == [["organization"], []]

    shop.complete(first)  # the slot is that of the other project, which has waited for longer
    assert shop.list_states(third, fourth) == ["QUEUED", "QUEUED"]
    with pytest.raises(TooMany):
        shop.submit()
    admit_waiting(shop.database)
    assert shop.list_states(third, fourth) == ["PENDING", "QUEUED"]
    other.complete(second)
    admit_waiting(shop.database)
    assert shop.list_states(third, fourth) == ["PENDING", "PENDING"]

    fifth = shop.submit(queue=True)
    limit(shop)  # as the settings say: none
    admit_waiting(shop.database)
    assert shop.reload(fifth).state == "PENDING"


def test_a_full_project_keeps_no_other_one_waiting(shop: Shop) -> None:
    limit(shop, executions_at_once=11)
    running = [shop.submit() for _ in range(10)]
    waiting = shop.submit(queue=True)
    assert shop.list_obstacles(waiting) == ["project"]
    assert shop.add_project("other").submit().state == "PENDING"
    shop.complete(running[0])
    admit_waiting(shop.database)
    assert shop.reload(waiting).state == "PENDING"


def test_simultaneous_requests_exceed_neither_limit(shop: Shop) -> None:
    limit(shop, executions_at_once=5, executions_a_day=12)
    shops = [shop.add_project(f"project {number}") for number in range(4)]
    databases = [Database(shop.database.engine, shop.settings) for _ in shops]  # of several instances

    def submit(number: int) -> str:
        own = replace(shops[number % 4], database=databases[number % 4])
        try:
            return own.submit(queue=True).state
        except DailyLimit:
            return "refused"

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(submit, range(24)))
    assert sorted(answers) == ["PENDING"] * 5 + ["QUEUED"] * 7 + ["refused"] * 12

    def end(execution_id: str) -> None:
        with shop.database.read() as session:
            execution = session.get_one(Execution, execution_id)
        shop.complete(execution)
        with shop.database.read() as session:
            assert count_active(session, shop.organization_id) <= 5
        admit_waiting(shop.database)

    for _ in range(6):  # all end, whoever admits the next ones
        with shop.database.read() as session:
            pending = session.scalars(select(Execution.id).where(Execution.state == "PENDING")).all()
        with ThreadPoolExecutor(5) as pool:
            list(pool.map(end, pending))
    with shop.database.read() as session:
        assert set(session.scalars(select(Execution.state))) == {"COMPLETED"}


def test_a_day_has_so_many_and_the_next_day_as_many_again(shop: Shop) -> None:
    earlier = [shop.submit() for _ in range(2)]  # without a limit they are counted by their ids
    limit(shop, executions_a_day=3)
    third = shop.submit()
    with shop.database.write() as session:
        JobRepository(session, shop.organization_id)  # deleting executions gives none back
        session.delete(session.get_one(Execution, third.id))
    with pytest.raises(DailyLimit, match=r"has begun 3 executions today.*T00:00:00Z") as refused:
        shop.submit(queue=True)
    assert refused.value.details[0].code == "daily-limit"
    assert 0 < refused.value.retry_after <= 86_401
    shop.complete(earlier[0])
    assert State(shop.reload(earlier[0]).state).terminal
    with shop.database.write() as session:
        session.execute(update(OrganizationLimits).values(day=(now() - timedelta(days=1)).date()))
        session.execute(update(Execution).values(created_at=now()))
    with shop.database.read() as session:
        assert session.scalar(select(OrganizationLimits.day_executions)) == 3
    assert shop.submit().state == "PENDING"  # the two of today that are left, and this one


def test_without_room_for_more_rows_nothing_begins_and_what_runs_ends(shop: Shop) -> None:
    running = shop.submit()
    limit(shop, storage_bytes=1000)
    assert shop.complete(running, output_file_size_bytes=1500) == "COMPLETED"
    with pytest.raises(Conflict, match="take 1,500 bytes; the limit is 1,000") as refused:
        shop.submit(queue=True)
    assert refused.value.details[0].code == "storage-limit"
    limit(shop, storage_bytes=1501)
    shop.complete(shop.submit(), output_file_size_bytes=700)
    with shop.database.read() as session:
        assert session.scalar(select(Dataset.stored_bytes)) == 2200
