"""Executions of several projects wait for places in pools, in turns, and give them back however they end."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from threading import Event

import pytest
from sqlalchemy import func, select, update

from core.definitions.pools.models import PoolCreate, PoolUpdate
from core.definitions.pools.repository import PoolRepository
from core.errors import Conflict, TooMany
from core.infra.database import Database, open_database
from core.lifecycle.executions.reconcile import admit_waiting
from core.lifecycle.executions.reports import cancel, claim, fail, release_cancelled
from core.lifecycle.executions.retries import FailureCode
from core.lifecycle.executions.transitions import MAX_CONCURRENT_EXECUTIONS
from core.tables import Execution, now
from core.tables.states import TERMINAL
from tests.support.shop import Shop


def add_pool(shop: Shop, name: str, limit: int) -> None:
    with shop.database.write() as session:
        PoolRepository(session, shop.organization_id).create(PoolCreate(name=name, limit=limit))


def test_an_execution_waits_for_all_of_its_pools_and_tells_which(shop: Shop) -> None:
    add_pool(shop, "host", 1)
    add_pool(shop, "licence", 1)
    shop.change_job(pools=["host", "licence", "host"])
    other = shop.add_project("Second", pools=["host"])
    third = shop.add_project("Third", pools=["licence"])
    running = [other.submit(), third.submit()]
    waiting = shop.submit(queue=True)
    assert (waiting.state, shop.list_obstacles(waiting), shop.active()) == ("QUEUED", ["pool host", "pool licence"], 0)
    with pytest.raises(TooMany, match=r"No place is free in these pools: 'host', 'licence'\.") as refused:
        shop.submit()
    assert refused.value.details[0].code == "pool-limit"
    fail(shop.database, running[0].id, "It broke.")
    admit_waiting(shop.database)
    assert (shop.list_states(waiting), shop.list_obstacles(waiting)) == (["QUEUED"], ["pool licence"])
    fail(shop.database, running[1].id, "It broke.")
    admit_waiting(shop.database)
    assert (shop.list_states(waiting), shop.list_obstacles(waiting), shop.active()) == (["PENDING"], [], 1)


def test_projects_take_turns_in_a_pool(shop: Shop) -> None:
    add_pool(shop, "host", 1)
    shop.change_job(pools=["host"])
    other = shop.add_project("Second", pools=["host"])
    first = [shop.submit(queue=True) for _ in range(4)]
    second = [other.submit(queue=True) for _ in range(2)]
    begun: list[Execution] = []
    for _ in range(6):
        admit_waiting(shop.database)
        (found,) = [each for each in (*first, *second) if shop.reload(each).state == "PENDING"]
        begun.append(found)
        fail(shop.database, found.id, "It broke.")
    expected = [first[0], second[0], first[1], second[1], first[2], first[3]]
    assert [each.id for each in begun] == [each.id for each in expected]


def test_nobody_waits_behind_one_that_waits_for_a_pool(shop: Shop) -> None:
    add_pool(shop, "host", 1)
    shop.change_job(pools=["host"])
    beside = shop.add_job("Beside")
    holder, blocked = shop.submit(), shop.submit(queue=True)
    others = [beside.submit() for _ in range(MAX_CONCURRENT_EXECUTIONS - 1)]
    later = beside.submit(queue=True)
    assert shop.list_obstacles(blocked) == ["project", "pool host"]
    fail(shop.database, others[0].id, "It broke.")  # the slot is handed on at once
    assert shop.list_states(blocked, later) == ["QUEUED", "PENDING"]
    last = beside.submit(queue=True)
    fail(shop.database, holder.id, "It broke.")  # the slot is left for the first one, which the launcher admits
    with pytest.raises(TooMany, match="10 executions, the limit"):
        beside.submit()
    assert shop.list_states(blocked, last) == ["QUEUED", "QUEUED"]
    admit_waiting(shop.database)
    assert shop.list_states(blocked, last) == ["PENDING", "QUEUED"]


def test_a_new_execution_does_not_pass_those_that_have_waited(shop: Shop) -> None:
    add_pool(shop, "host", 1)
    shop.change_job(pools=["host"])
    beside = shop.add_job("Beside", pools=["host"])
    holder, waiting = shop.submit(), shop.submit(queue=True)
    fail(shop.database, holder.id, "It broke.")
    with pytest.raises(TooMany):
        beside.submit()
    later = beside.submit(queue=True)
    admit_waiting(shop.database)
    assert shop.list_states(waiting, later) == ["PENDING", "QUEUED"]


def test_places_come_back_with_slots(shop: Shop) -> None:
    """After a pause before a retry, a cancel while the driver is ending, and a deletion of the job."""
    add_pool(shop, "host", 1)
    shop.change_job(pools=["host"])
    other = shop.add_project("Second", pools=["host"])
    retried = shop.submit()
    with shop.database.write() as session:
        session.execute(update(Execution).where(Execution.id == retried.id).values(max_retries=1))
    claim(shop.database, retried.id, 1, "run")
    fail(shop.database, retried.id, "It was lost.", code=FailureCode.DRIVER_LOST)
    cancelled = other.submit()  # the pause holds no place
    assert shop.list_obstacles(retried) == []
    with shop.database.write() as session:
        session.execute(update(Execution).where(Execution.id == retried.id).values(retry_at=now() - timedelta(1)))
    claim(shop.database, cancelled.id, 1, "run")
    cancel(shop.database, shop.organization_id, cancelled.id, "Stopped.")
    admit_waiting(shop.database)
    assert shop.list_obstacles(retried) == ["pool host"]
    release_cancelled(shop.database, cancelled.id, 1)
    admit_waiting(shop.database)
    assert shop.list_states(retried) == ["PENDING"]
    assert other.retry(cancelled, queue=True).state == "QUEUED"
    shop.delete_job()
    admit_waiting(shop.database)
    assert shop.list_states(cancelled) == ["PENDING"]


def test_a_pool_that_jobs_name_stays_and_one_that_is_gone_has_no_limit(shop: Shop) -> None:
    add_pool(shop, "host", 1)
    shop.change_job(pools=["host"])
    shop.submit()
    waiting = [shop.submit(queue=True) for _ in range(3)]
    with shop.database.write() as session:
        pools = PoolRepository(session, shop.organization_id)
        with pytest.raises(Conflict, match="'host' is named by Shop/Books: change these jobs first") as refused:
            pools.delete("host")
        assert refused.value.details[0].code == "pool-in-use"
        pools.update("host", PoolUpdate(limit=2))
    admit_waiting(shop.database)
    assert shop.list_states(*waiting) == ["PENDING", "QUEUED", "QUEUED"]
    shop.change_job(pools=[])
    assert shop.submit().state == "PENDING"  # what was accepted keeps its pools
    with shop.database.write() as session:
        PoolRepository(session, shop.organization_id).delete("host")
    admit_waiting(shop.database)
    assert shop.list_states(*waiting) == ["PENDING"] * 3


def test_pools_of_organizations_are_apart(shop: Shop, other_shop: Shop) -> None:
    for each in (shop, other_shop):
        add_pool(each, "host", 1)
        each.change_job(pools=["host"])
        assert each.submit().state == "PENDING"


@pytest.mark.long
def test_many_at_once_never_exceed_a_pool_and_all_have_their_turn(shop: Shop) -> None:
    """Submits, ends and launchers of several instances, in threads."""
    limit, count = 3, 6
    add_pool(shop, "host", limit)
    shop.change_job(pools=["host"])
    shops = [shop, *(shop.add_project(name, pools=["host"]) for name in ("Second", "Third"))]
    stop, seen = Event(), list[int]()
    holding = select(func.count()).where(Execution.holds_slot)
    open_ones = select(Execution.id).where(Execution.state.not_in(TERMINAL))

    def admit(database: Database) -> None:
        while not stop.wait(0.01):
            admit_waiting(database)

    def end(database: Database) -> None:
        while not stop.wait(0.01):
            with database.read() as session:
                seen.append(session.scalar(holding) or 0)
                ready = session.scalars(open_ones.where(Execution.holds_slot)).all()
            for found in ready:
                fail(database, found, "It made room.")

    with closing(open_database(shop.settings, connections=12)) as database, ThreadPoolExecutor(9) as pool:
        shops = [replace(each, database=database) for each in shops]
        try:
            working = [pool.submit(admit, database) for _ in range(3)]
            submits = [pool.submit(each.submit, queue=True) for each in shops * count]
            submitted = [each.result() for each in submits]
            with database.read() as session:
                assert session.scalar(holding) == limit
            working += [pool.submit(end, database) for _ in range(2)]
            while not any(each.done() for each in working):  # one that fails is told below
                with database.read() as session:
                    if session.scalar(open_ones.limit(1)) is None:
                        break
                time.sleep(0.05)
        finally:
            stop.set()
        for each in working:
            each.result()
    assert max(seen) <= limit
    assert shop.list_states(*submitted) == ["FAILED"] * 3 * count
    assert [replace(each, database=shop.database).active() for each in shops] == [0, 0, 0]
