"""The metadata database: engine and sessions. SQLite (WAL) in the data folder, or PostgreSQL by one setting."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.orm import Session, sessionmaker

from core.settings import Settings

BUSY_TIMEOUT_SECONDS = 10


def database_url(settings: Settings) -> str:
    if settings.database_url is not None:
        return settings.database_url.get_secret_value()
    return f"sqlite:///{settings.data.resolve() / 'spindle.db'}"


def make_engine(url: str) -> Engine:
    """An engine whose transactions begin when they say so: SQLite takes its write lock at BEGIN, never halfway."""
    if not url.startswith("sqlite"):
        return create_engine(url, pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_SECONDS})
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin)
    return engine


def _configure_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver's own implicit BEGIN would come too late
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")  # an acknowledged write survives a power cut
    connection.execute("PRAGMA foreign_keys = ON")


def _begin(connection: Any) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


class Database:
    """Hands out sessions: one `read` or `write` block is one transaction, committed at its end."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._readers = sessionmaker(engine, expire_on_commit=False)
        self._writers = sessionmaker(engine.execution_options(writes=True), expire_on_commit=False)

    @contextmanager
    def read(self) -> Generator[Session]:
        with self._readers() as session:
            yield session

    @contextmanager
    def write(self) -> Generator[Session]:
        with self._writers.begin() as session:
            yield session

    def close(self) -> None:
        self.engine.dispose()


def open_database(settings: Settings) -> Database:
    return Database(make_engine(database_url(settings)))
