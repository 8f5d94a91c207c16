"""Instances share a PostgreSQL database, of which one leads; a command that needs it alone is refused, and refuses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import create_engine, make_url, text

from cli.data_folder import CannotStart, lock_database
from cli.up import up
from core.errors import Unavailable
from core.infra.instance_lock import InstanceLock
from core.infra.instances import Membership
from core.infra.migrations import migrate
from core.infra.settings import Settings
from tests.support.postgres import new_database
from tests.support.service import free_port

Instances = list[Settings]


@pytest.fixture
def url(postgres: str) -> Iterator[str]:
    with new_database(postgres) as url:
        yield url


@pytest.fixture
def three(url: str, tmp_path: Path) -> Instances:
    return [Settings(data=tmp_path / str(number), database_url=SecretStr(url)) for number in range(3)]


@pytest.mark.long
def test_a_command_and_instances_refuse_each_other(
    url: str, three: Instances, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, command = *map(InstanceLock, three[:2]), InstanceLock(three[2], alone=True)
    assert [lock.acquire() for lock in (first, first, second)] == [None] * 3
    assert first.count_instances() == 2
    assert f"process {os.getpid()} on" in (command.acquire() or "")
    first.close()
    second.close()
    assert command.acquire() is None
    monkeypatch.setenv("SPINDLE_DATABASE_URL", url)
    assert up(three[0].data, free_port(), free_port(), "127.0.0.1") == 1
    assert f"process {os.getpid()} on" in capsys.readouterr().err
    command.close()


@pytest.mark.long
def test_a_command_waits_for_the_lease_of_an_instance_that_has_lost_its_connection(three: Instances) -> None:
    migrate(three[0])
    member = Membership(three[0])
    member.renew()
    with lock_database(three[0]):  # its own, whose folder is not in use
        pass
    with pytest.raises(CannotStart, match="a moment ago"), lock_database(three[1]):
        pass
    member.end()
    with lock_database(three[1]):
        pass


@pytest.mark.long
def test_another_instance_leads_after_the_first(url: str, three: Instances) -> None:
    with closing(InstanceLock(three[0])) as first, closing(InstanceLock(three[1])) as second:
        assert [first.acquire(), second.acquire()] == [None, None]
        assert [first.lead(), first.lead(), second.lead()] == [True, True, False]
        end_connections(url)
        for lock in (first, second):
            with pytest.raises(Unavailable):
                lock.acquire()
            assert lock.acquire() is None
        assert [second.lead(), first.lead()] == [True, False]


def test_sqlite_needs_no_lock(tmp_path: Path) -> None:
    locks = [InstanceLock(Settings(data=tmp_path)) for _ in range(2)]
    assert [(lock.acquire(), lock.lead()) for lock in locks] == [(None, True)] * 2


def end_connections(url: str) -> None:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'spindle, process%'"
    with engine.connect() as connection:
        connection.execute(text(query))
    engine.dispose()
