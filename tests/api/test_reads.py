"""Reads that wait at the same moment are one statement, and each is answered as if it were alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import RowMapping, event, update

from api.kit.reads import MOST, MOST_LATE, Reads
from core.errors import NotFound, Unavailable
from core.infra.database import Database, open_database
from core.infra.migrations import migrate
from core.infra.settings import Settings
from core.jobs.repository import Jobs
from core.projects.repository import Projects
from core.tables import Project
from tests.support.shop import Shop, make_shop

PATIENCE_SECONDS = 60


@dataclass
class Gate:
    """Sees what is read of the database, and holds it while it is closed."""

    statements: list[Sequence[str]] = field(default_factory=list)
    reached: threading.Event = field(default_factory=threading.Event)
    open: threading.Event = field(default_factory=threading.Event)

    def answered(self, _connection: Any, _cursor: Any, statement: str, ids: Sequence[str], *_: Any) -> None:
        if statement.startswith("SELECT"):
            self.pass_through(ids)

    def connecting(self, *_: Any) -> None:
        self.pass_through(())

    def pass_through(self, ids: Sequence[str]) -> None:
        opening = self.open
        self.statements.append(ids)
        self.reached.set()
        assert opening.wait(PATIENCE_SECONDS)

    def open_to_others(self) -> threading.Event:
        """Those that are held stay so until the event that is returned."""
        held, self.open = self.open, threading.Event()
        self.open.set()
        return held

    async def closed_at_the_first(self, first: Coroutine[Any, Any, RowMapping]) -> asyncio.Task[RowMapping]:
        """Begins the read; its statement has begun when this returns, and has not answered."""
        self.open.clear()
        task = asyncio.create_task(first)
        assert await asyncio.to_thread(self.reached.wait, PATIENCE_SECONDS)
        return task


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    settings = Settings(data=tmp_path_factory.mktemp("reads"))
    migrate(settings)
    database = open_database(settings)
    yield database
    database.close()


@pytest.fixture(scope="module")
def shop(database: Database, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return make_shop(Settings(data=tmp_path_factory.mktemp("shop")), database)


@pytest.fixture(scope="module")
def rival(database: Database, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return make_shop(Settings(data=tmp_path_factory.mktemp("rival")), database, "rival")


@pytest.fixture(autouse=True)
def nothing_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is."""
    monkeypatch.setattr("api.kit.reads.LATE_SECONDS", 3600)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch, nothing_late: None) -> None:
    monkeypatch.setattr("api.kit.reads.LATE_SECONDS", 0)


@pytest.fixture
def gate(database: Database) -> Iterator[Gate]:
    gate = Gate()
    gate.open.set()
    event.listen(database.engine, "after_cursor_execute", gate.answered)
    yield gate
    event.remove(database.engine, "after_cursor_execute", gate.answered)


def asked(*reads: Coroutine[Any, Any, RowMapping]) -> list[Any]:
    """What each of the reads, made at the same moment, is answered: a record or an error."""

    async def together() -> list[Any]:
        return await asyncio.gather(*reads, return_exceptions=True)

    return asyncio.run(together())


def test_reads_of_the_same_moment_are_one_statement_and_each_has_its_own_answer(shop: Shop, rival: Shop, gate: Gate):
    reads, both = Reads(shop.database), (shop, rival, shop)
    found = asked(*(reads.read(Projects, each.organization_id, each.project_id) for each in both))
    assert [project["id"] for project in found] == [each.project_id for each in both]
    assert [project["organization_id"] for project in found] == [each.organization_id for each in both]
    assert len(gate.statements) == 1


def test_what_another_organization_asks_for_at_the_same_moment_does_not_exist(shop: Shop, rival: Shop, gate: Gate):
    reads = Reads(shop.database)
    mine, stolen, theirs = asked(
        reads.read(Projects, shop.organization_id, shop.project_id),
        reads.read(Projects, rival.organization_id, shop.project_id),
        reads.read(Projects, rival.organization_id, rival.project_id),
    )
    assert (mine["id"], theirs["id"]) == (shop.project_id, rival.project_id)
    assert isinstance(stolen, NotFound)
    found = asked(
        reads.read(Jobs, shop.organization_id, shop.project_id, shop.job_id),
        reads.read(Jobs, shop.organization_id, rival.project_id, shop.job_id),
        reads.read(Jobs, rival.organization_id, shop.project_id, shop.job_id),
    )
    assert found[0]["id"] == shop.job_id
    assert [str(error) for error in found[1:]] == ["There is no job with this id."] * 2
    assert len(gate.statements) == 2


def test_an_id_that_cannot_be_stored_is_unknown_and_harms_no_other(shop: Shop):
    reads = Reads(shop.database)
    none, half, found = asked(
        reads.read(Projects, shop.organization_id, "a\0b"),
        reads.read(Projects, shop.organization_id, "\ud800"),
        reads.read(Projects, shop.organization_id, shop.project_id),
    )
    assert isinstance(none, NotFound)
    assert isinstance(half, NotFound)
    assert found["id"] == shop.project_id


def test_a_read_sees_what_was_committed_before_it_though_a_statement_is_under_way(shop: Shop, gate: Gate):
    reads, ids = Reads(shop.database), (shop.organization_id, shop.project_id)

    def rename(name: str) -> None:
        with shop.database.write() as session:
            session.execute(update(Project).where(Project.id == shop.project_id).values(description=name))

    async def across_a_write() -> tuple[RowMapping, RowMapping]:
        first = await gate.closed_at_the_first(reads.read(Projects, *ids))
        await asyncio.to_thread(rename, "new")
        second = asyncio.create_task(reads.read(Projects, *ids))
        await asyncio.sleep(0)  # it waits by now
        gate.open.set()
        return await first, await second

    rename("old")
    first, second = asyncio.run(across_a_write())
    assert (first["description"], second["description"]) == ("old", "new")
    assert len(gate.statements) == 2


def test_those_who_come_while_a_statement_is_under_way_share_the_next(shop: Shop, rival: Shop, gate: Gate):
    reads = Reads(shop.database)

    async def five() -> list[RowMapping]:
        first = await gate.closed_at_the_first(reads.read(Projects, shop.organization_id, shop.project_id))
        ids = [(each.organization_id, each.project_id) for each in (shop, rival, shop, rival)]
        others = [asyncio.create_task(reads.read(Projects, *each)) for each in ids]
        await asyncio.sleep(0)
        gate.open.set()
        return [await first, *[await other for other in others]]

    found = asyncio.run(five())
    assert [project["id"] for project in found[1:]] == [shop.project_id, rival.project_id] * 2
    assert len(gate.statements) == 2


def test_a_client_that_goes_away_takes_nobody_along(shop: Shop, rival: Shop, gate: Gate):
    reads = Reads(shop.database)

    async def one_leaves() -> tuple[RowMapping, RowMapping]:
        leaving = await gate.closed_at_the_first(reads.read(Projects, shop.organization_id, shop.project_id))
        waiting = asyncio.create_task(reads.read(Projects, shop.organization_id, shop.project_id))
        staying = asyncio.create_task(reads.read(Projects, rival.organization_id, rival.project_id))
        await asyncio.sleep(0)
        leaving.cancel()
        waiting.cancel()
        await asyncio.wait([leaving, waiting])
        gate.open.set()
        return await staying, await reads.read(Projects, shop.organization_id, shop.project_id)

    staying, after = asyncio.run(one_leaves())
    assert (staying["id"], after["id"]) == (rival.project_id, shop.project_id)


def test_many_reads_are_statements_of_bounded_size(shop: Shop, gate: Gate):
    reads = Reads(shop.database)
    wanted = [f"none {number}" for number in range(2 * MOST + 1)]
    found = asked(*(reads.read(Projects, shop.organization_id, each) for each in wanted))
    assert {type(error) for error in found} == {NotFound}
    assert [len(set(wanted).intersection(values)) for values in gate.statements] == [MOST, MOST, 1]


def test_a_database_that_is_away_is_told_to_all_who_wait(tmp_path: Path):
    away = SecretStr("sqlite:////nowhere/at/all/spindle.db")
    database, attempts = open_database(Settings(data=tmp_path, database_url=away)), Gate()
    event.listen(database.engine, "do_connect", attempts.connecting)
    reads = Reads(database)

    async def three() -> list[Any]:
        first = await attempts.closed_at_the_first(reads.read(Projects, "organization", "id"))
        others = [asyncio.create_task(reads.read(Projects, "organization", str(number))) for number in range(2)]
        await asyncio.sleep(0)
        attempts.open.set()
        return await asyncio.gather(first, *others, return_exceptions=True)

    found = asyncio.run(three())
    assert [type(error) for error in found] == [Unavailable] * 3
    assert len(attempts.statements) == 1
    assert isinstance(asked(reads.read(Projects, "organization", "id"))[0], Unavailable)
    database.close()


def test_any_other_error_is_told_to_those_of_its_statement(shop: Shop):
    reads, ids = Reads(shop.database), (shop.organization_id, shop.project_id)

    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    event.listen(shop.database.engine, "before_cursor_execute", fail)
    found = asked(*(reads.read(Projects, *ids) for _ in range(3)))
    event.remove(shop.database.engine, "before_cursor_execute", fail)
    assert [type(error) for error in found] == [ZeroDivisionError] * 3
    assert asked(reads.read(Projects, *ids))[0]["id"] == shop.project_id


@pytest.mark.usefixtures("late")
def test_nobody_waits_for_a_statement_that_is_late(shop: Shop, rival: Shop, gate: Gate):
    reads = Reads(shop.database)

    async def past_the_first() -> tuple[bool, Sequence[RowMapping]]:
        first = await gate.closed_at_the_first(reads.read(Projects, shop.organization_id, shop.project_id))
        held = gate.open_to_others()
        second = await reads.read(Projects, rival.organization_id, rival.project_id)
        overtaken = not first.done()
        held.set()
        return overtaken, (await first, second)

    overtaken, found = asyncio.run(past_the_first())
    assert overtaken
    assert [project["id"] for project in found] == [shop.project_id, rival.project_id]


@pytest.mark.usefixtures("late")
def test_late_statements_are_few_and_who_waits_for_them_is_answered(shop: Shop, gate: Gate):
    reads, ids = Reads(shop.database), (shop.organization_id, shop.project_id)

    async def all_late() -> list[RowMapping]:
        asking: list[asyncio.Task[RowMapping]] = []
        for _ in range(MOST_LATE):
            asking.append(await gate.closed_at_the_first(reads.read(Projects, *ids)))
            gate.reached.clear()
        asking += [asyncio.create_task(reads.read(Projects, *ids)) for _ in range(2)]
        assert not await asyncio.to_thread(gate.reached.wait, 0.1)
        gate.open.set()
        return await asyncio.gather(*asking)

    assert {project["id"] for project in asyncio.run(all_late())} == {shop.project_id}


@pytest.mark.usefixtures("late")
def test_a_statement_that_never_answers_is_told_to_all_who_wait(
    shop: Shop, gate: Gate, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("api.kit.reads.STATEMENT_TIMEOUT_MS", 0)
    monkeypatch.setattr("api.kit.reads.MOST_LATE", 1)
    reads, ids = Reads(shop.database), (shop.organization_id, shop.project_id)

    async def in_vain() -> tuple[list[Any], RowMapping]:
        gate.open.clear()
        found = await asyncio.gather(*(reads.read(Projects, *ids) for _ in range(MOST + 1)), return_exceptions=True)
        monkeypatch.setattr("api.kit.reads.LATE_SECONDS", 3600)
        gate.open.set()
        return found, await reads.read(Projects, *ids)

    found, after = asyncio.run(in_vain())
    assert {type(error) for error in found} == {Unavailable}
    assert after["id"] == shop.project_id


def test_nobody_waits_for_a_statement_that_is_cancelled(shop: Shop, gate: Gate):
    reads, ids = Reads(shop.database), (shop.organization_id, shop.project_id)

    async def cancelled() -> tuple[list[Any], RowMapping]:
        first = await gate.closed_at_the_first(reads.read(Projects, *ids))
        second = asyncio.create_task(reads.read(Projects, *ids))
        await asyncio.sleep(0)
        for task in asyncio.all_tasks() - {first, second, asyncio.current_task()}:
            task.cancel()
        found = await asyncio.gather(first, second, return_exceptions=True)
        gate.open.set()
        return list(found), await reads.read(Projects, *ids)

    found, after = asyncio.run(cancelled())
    assert [type(error) for error in found] == [Unavailable] * 2
    assert after["id"] == shop.project_id
