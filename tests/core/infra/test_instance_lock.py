"""A PostgreSQL database has one instance, and the second is told of the first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import create_engine, make_url, text

from cli.up import up
from core.errors import Unavailable
from core.infra.instance_lock import InstanceLock
from core.infra.settings import Settings
from tests.support.postgres import new_database
from tests.support.service import free_port


@pytest.fixture
def url(postgres: str) -> Iterator[str]:
    with new_database(postgres) as url:
        yield url


@pytest.mark.long
def test_a_second_instance_is_refused_until_the_first_has_ended(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = InstanceLock(Settings(data=tmp_path / "first", database_url=SecretStr(url)))
    second = InstanceLock(Settings(data=tmp_path / "second", database_url=SecretStr(url)))
    assert first.acquire() is None
    assert first.acquire() is None
    assert f"process {os.getpid()} on" in (second.acquire() or "")
    monkeypatch.setenv("SPINDLE_DATABASE_URL", url)
    assert up(tmp_path / "third", free_port(), free_port(), "127.0.0.1") == 1
    assert f"process {os.getpid()} on" in capsys.readouterr().err
    first.close()
    assert second.acquire() is None
    second.close()


@pytest.mark.long
def test_a_lost_connection_is_replaced_unless_another_instance_was_faster(url: str, tmp_path: Path) -> None:
    first = InstanceLock(Settings(data=tmp_path / "first", database_url=SecretStr(url)))
    second = InstanceLock(Settings(data=tmp_path / "second", database_url=SecretStr(url)))
    assert first.acquire() is None
    end_connections(url)
    with pytest.raises(Unavailable):
        first.acquire()
    assert first.acquire() is None
    end_connections(url)
    assert second.acquire() is None
    with pytest.raises(Unavailable):
        first.acquire()
    assert first.acquire() is not None
    second.close()


def test_sqlite_needs_no_lock(tmp_path: Path) -> None:
    locks = [InstanceLock(Settings(data=tmp_path)) for _ in range(2)]
    assert [lock.acquire() for lock in locks] == [None, None]


def end_connections(url: str) -> None:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'spindle, process%'"
    with engine.connect() as connection:
        connection.execute(text(query))
    engine.dispose()
