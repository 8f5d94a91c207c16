"""Connections to PostgreSQL, direct and behind a PgBouncer in transaction mode: bounded, limited, closed when idle."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from core.errors import Unavailable
from core.infra import connection_pool
from core.infra.connection_budget import check_connections, count_connections
from core.infra.database import BUSY, LOCKED, Database, make_engine, open_database
from core.infra.instance_lock import InstanceLock
from core.infra.settings import Settings
from tests.support.pgbouncer import pooler
from tests.support.postgres import cluster, new_database

pytestmark = pytest.mark.long
CONNECTIONS = 3
LIMITS = text("SELECT current_setting('lock_timeout'), current_setting('statement_timeout')")


@pytest.fixture
def direct(postgres: str) -> Iterator[str]:
    with new_database(postgres) as url:
        yield url


@pytest.fixture(params=["direct", "pooled"])
def settings(request: pytest.FixtureRequest, direct: str, tmp_path: Path) -> Iterator[Settings]:
    with ExitStack() as stack:
        url = direct if request.param == "direct" else stack.enter_context(pooler(direct))
        yield Settings(data=tmp_path, database_url=SecretStr(url))


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    with closing(open_database(settings, CONNECTIONS)) as database:
        with database.write() as session:
            session.execute(text("CREATE TABLE things (id INT)"))
        yield database


def count(direct: str) -> int:
    """Return how many connections of clients the database has, without this one."""
    engine = make_engine(direct)
    with engine.connect() as connection:
        others = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        found = connection.scalar(others) or 0
    engine.dispose()
    return found - 1


def test_each_statement_has_its_limits_and_what_was_written_is_read(database: Database) -> None:
    def write_and_read(number: int) -> int:
        with database.write(durable=number % 2 == 0) as session:
            session.execute(text("INSERT INTO things VALUES (:number)"), {"number": number})
            assert session.execute(LIMITS).one() == ("10s", "30s")
        with database.read() as session:
            assert session.execute(LIMITS).one() == ("10s", "30s")
            return session.execute(text("SELECT id FROM things WHERE id = :number"), {"number": number}).scalar_one()

    with ThreadPoolExecutor(20) as threads:
        assert [*threads.map(write_and_read, range(100))] == [*range(100)]


def test_a_lock_is_reported_and_takes_no_more_connections_than_the_setting(
    database: Database, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database.engine.pool, "_timeout", 0.2)

    def read() -> str:
        try:
            with database.read() as session:
                session.execute(text("SELECT * FROM things"))
        except Unavailable as error:
            return error.sentence
        return ""

    other = make_engine(direct)
    with other.begin() as connection, ThreadPoolExecutor(20) as threads:
        connection.execute(text("LOCK TABLE things"))
        asked = [threads.submit(read) for _ in range(20)]
        assert count(direct) <= CONNECTIONS + 1
        sentences = [each.result() for each in asked]
    other.dispose()
    assert sorted({*sentences}) == sorted({BUSY, LOCKED})
    assert sentences.count(LOCKED) == CONNECTIONS
    assert read() == ""


def test_idle_connections_are_closed(database: Database, direct: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(database.read()).execute(text("SELECT 1"))
    pool = database.engine.pool
    assert isinstance(pool, connection_pool.ExpiringPool)
    assert pool.checkedin() == CONNECTIONS
    monkeypatch.setattr(connection_pool, "IDLE_SECONDS", 0)
    connection_pool.close_idle_connections()
    assert pool.checkedin() == 0
    with database.read() as session:
        assert session.scalar(text("SELECT 1")) == 1


def test_a_command_has_the_database_alone(settings: Settings, tmp_path: Path) -> None:
    first, second = InstanceLock(settings), InstanceLock(settings.replace(data=tmp_path / "second"), alone=True)
    assert first.acquire() is None
    assert "data folder" in (second.acquire() or "")
    assert first.acquire() is None
    first.close()
    assert second.acquire() is None
    second.close()


def test_a_server_with_too_few_connections_is_named_at_the_start(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    assert sum(count_connections(settings).values()) <= 60
    assert check_connections(settings, 1) is None  # SQLite
    with cluster(max_connections=30) as server:
        settings = settings.replace(database_url=SecretStr(server.url))
        warning = check_connections(settings, 1) or ""
        assert "api 16" in warning
        assert "this server has 27" in warning
        assert "SPINDLE_DATABASE_API_CONNECTIONS" in warning
        few = settings.replace(
            database_api_connections=2, database_launcher_connections=2, database_dagster_connections=2
        )
        assert check_connections(few, 1) is None
        with pooler(server.url) as url:
            assert check_connections(settings.replace(database_url=SecretStr(url)), 1) is None
