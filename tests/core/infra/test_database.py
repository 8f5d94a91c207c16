from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError
from sqlalchemy import delete, make_url, select, text, update
from sqlalchemy.exc import StatementError

from core.errors import Conflict, Unavailable
from core.infra.database import Database, open_database
from core.infra.migrations import migrate
from core.infra.settings import Settings
from core.tables import Job, Project, now
from tests.support import postgres
from tests.support.shop import Shop


def test_times_come_back_aware_and_in_utc(shop: Shop) -> None:
    tokyo = datetime(2026, 3, 1, 21, 30, 15, 123456, tzinfo=timezone(timedelta(hours=9)))
    with shop.database.write() as session:
        session.execute(update(Project).values(created_at=tokyo))
    with shop.database.read() as session:
        stored = session.scalars(select(Project.created_at)).one()
        earlier = Project.created_at < tokyo + timedelta(microseconds=1)
        assert session.scalars(select(Project.id).where(Project.created_at >= tokyo, earlier)).all()
    assert stored == datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
    assert stored.tzinfo is UTC


def test_a_time_without_a_zone_is_refused(shop: Shop) -> None:
    with pytest.raises(StatementError, match="without a zone"), shop.database.write() as session:
        session.execute(update(Project).values(created_at=now().replace(tzinfo=None)))


def test_a_block_that_raises_writes_nothing(shop: Shop) -> None:
    def write_half() -> None:
        with shop.database.write() as session:
            session.execute(update(Project).values(description="half"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    with shop.database.read() as session:
        assert session.scalars(select(Project.description)).one() is None


def test_a_row_that_was_removed_meanwhile_is_a_conflict(shop: Shop) -> None:
    def add_late() -> None:
        with shop.database.write() as session:
            session.execute(delete(Project))
            session.add(Job(organization_id=shop.organization_id, project_id=shop.project_id, name="Late", slug="late"))

    with pytest.raises(Conflict, match="at the same time"):
        add_late()
    assert shop.active() == 0


def test_concurrent_writers_lose_nothing(shop: Shop) -> None:
    def count(_: int) -> None:
        with shop.database.write() as session:
            session.execute(update(Project).values(active_executions=Project.active_executions + 1))

    with ThreadPoolExecutor(30) as pool:
        list(pool.map(count, range(300)))
    assert shop.active() == 300


def test_readers_do_not_wait_for_a_writer(shop: Shop) -> None:
    with shop.database.write() as writing:
        writing.execute(update(Project).values(description="new"))
        with shop.database.read() as reading:
            assert reading.scalars(select(Project.description)).one() is None


@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_lost_connection_is_replaced(shop: Shop) -> None:
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with shop.database.write() as writing, shop.database.read() as reading:
        assert reading.scalar(select(Project.name)) == "Shop"
        assert writing.scalar(select(Project.name)) == "Shop"
        reading.close()
        assert writing.scalar(text(f"SELECT every(pg_terminate_backend(pid, 60000)) {others}"))
    with shop.database.write() as writing, shop.database.read() as reading:
        assert writing.scalar(select(Project.name)) == "Shop"
        assert reading.scalar(select(Project.name)) == "Shop"


@pytest.mark.parametrize("kind", ["postgresql"])
def test_the_kernel_closes_connections_to_a_silent_server(shop: Shop) -> None:
    with shop.database.engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        with socket.socket(fileno=os.dup(driver.fileno())) as peer:
            assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
            assert [peer.getsockopt(socket.IPPROTO_TCP, each) for each in options] == [10, 5, 3, 15_000]


def test_a_database_that_refuses_says_why_at_a_start(tmp_path: Path) -> None:
    """Without the password, which the driver's own message may have."""

    def refuse(url: str) -> str:
        with pytest.raises(Unavailable) as error:
            migrate(Settings(data=tmp_path / "data", database_url=SecretStr(url)))
        assert "secret" not in error.value.sentence
        return error.value.sentence

    with postgres.server() as url:
        other = make_url(url).set(password="secret-word").render_as_string(hide_password=False)
        unknown = make_url(url).set(database="unknown").render_as_string(hide_password=False)
        place = f"127.0.0.1:{make_url(url).port}"
        if make_url(url).host == "127.0.0.1":
            assert "password authentication failed" in refuse(other)
            assert f"'unknown' at {place} cannot be used: database \"unknown\" does not exist." in refuse(unknown)
    closed = refuse("postgresql://someone:secret@127.0.0.1:1/none")
    assert closed == "The metadata database 'none' at 127.0.0.1:1 cannot be used: Connection refused."
    assert "failed to resolve host 'nowhere.invalid'" in refuse("postgresql://someone:secret@nowhere.invalid/none")
    unopened = refuse("sqlite:////nowhere/at/all/spindle.db")
    assert unopened.endswith("spindle.db cannot be used: unable to open database file.")


@pytest.mark.parametrize(
    "url",
    [
        "garbage",
        "mysql://me:secret@host/name",
        "postgresql://me:secret@host:abc/name",
        "postgresql://me:secret@host:70000/name",
    ],
)
def test_an_address_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValidationError, match="SPINDLE_DATABASE_URL: it") as error:
        Settings(database_url=SecretStr(url))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "url", ["postgresql://someone:secret@127.0.0.1:1/none", "sqlite:////nowhere/at/all/spindle.db"]
)
def test_an_unreachable_database_is_reported_without_its_address(tmp_path: Path, url: str) -> None:
    database: Database = open_database(Settings(data=tmp_path, database_url=SecretStr(url)))
    for block in (database.read, database.write):
        with pytest.raises(Unavailable) as error, block() as session:
            session.execute(select(1))
        assert "secret" not in str(error.value)
        assert "127.0.0.1" not in str(error.value)
        assert error.value.retryable
    database.close()
