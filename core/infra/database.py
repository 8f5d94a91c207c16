"""The metadata database: SQLite (WAL) in the data folder, or PostgreSQL when a setting names one."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Lock
from typing import Any, cast

import psycopg
from sqlalchemy import (
    URL,
    Connection,
    CursorResult,
    Delete,
    Engine,
    Insert,
    RowMapping,
    Select,
    Update,
    create_engine,
    event,
    make_url,
)
from sqlalchemy import text as sql
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import DeclarativeBase, Session, sessionmaker
from sqlalchemy.orm.exc import StaleDataError

from core.errors import Conflict, Unavailable
from core.infra.commit_mark import CommitMark
from core.infra.connection_pool import describe_pool, limit_statements, replace_lost
from core.infra.idle import IdleWatch
from core.infra.settings import POSTGRESQL_PORT, Settings
from core.tables.definitions import record_changes

BUSY_TIMEOUT_SECONDS = 8
SQLITE_FULL_CODES = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)  # the second: of the index beside the log
SQLITE_CONNECTIONS = 20
OTHER_CONNECTIONS = 3  # to PostgreSQL, of a process that has no setting for them
FULL = "There is no space left on the disk of the metadata database."
COMMITS = "commits"
UNAVAILABLE = "The metadata database does not answer. Try again in a moment."
write_json = json.JSONEncoder(separators=(",", ":")).encode  # without spaces: they would be stored
BUSY = "All connections to the metadata database are in use. Try again in a moment."
LOCKED = "The metadata database is locked, or too slow. Try again in a moment."


def database_url(settings: Settings) -> str:
    if settings.database.url is not None:
        return settings.database.url.get_secret_value()
    return f"sqlite:///{settings.data.resolve() / 'spindle.db'}"


def make_address(settings: Settings) -> str | None:
    """Return the address of PostgreSQL for its own client; None with SQLite."""
    url = make_url(database_url(settings))
    if url.get_backend_name() != "postgresql":
        return None
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


def make_engine(url: str, connections: int = OTHER_CONNECTIONS) -> Engine:
    """Create an engine for SQLite, or for PostgreSQL with at most so many connections.

    Its errors never include the parameters of a statement.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _make_sqlite_engine(parsed)
    driver = parsed.set(drivername="postgresql+psycopg")
    engine = create_engine(driver, json_serializer=write_json, **describe_pool(connections))
    replace_lost(engine)
    limit_statements(engine)
    return engine


def _make_sqlite_engine(url: URL) -> Engine:
    engine = create_engine(
        url,
        connect_args={"timeout": BUSY_TIMEOUT_SECONDS},
        hide_parameters=True,
        json_serializer=write_json,
        pool_size=SQLITE_CONNECTIONS,
        max_overflow=0,
    )
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _configure_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # transactions begin in `_begin_sqlite`: the driver itself would begin too late
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: Connection) -> None:
    """Begin a transaction; a writer takes the lock at once, since waiting for it halfway could deadlock."""
    options = connection.get_execution_options()
    if options.get("single_statement"):
        return
    if not options.get("writes"):
        connection.exec_driver_sql("BEGIN")
        return
    level = "FULL" if options.get("durable", True) else "NORMAL"
    if connection.info.get("synchronous") != level:
        connection.exec_driver_sql(f"PRAGMA synchronous = {level}")
        connection.info["synchronous"] = level
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def is_disk_full(error: BaseException) -> bool:
    """Return whether the error is that of a database without room."""
    cause = getattr(error, "orig", None)
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", None) in SQLITE_FULL_CODES
    return isinstance(cause, psycopg.errors.DiskFull)


@contextmanager
def translate_errors() -> Generator[None]:
    """Raise Unavailable or Conflict in place of SQLAlchemy's errors, which would reveal internals to callers."""
    try:
        yield
    except (OperationalError, InterfaceError, PoolTimeout) as error:
        cause = getattr(error, "orig", None)
        if is_disk_full(error):
            raise Unavailable(FULL, code="no-space") from error
        if isinstance(error, PoolTimeout):
            raise Unavailable(BUSY) from error
        if isinstance(cause, psycopg.errors.LockNotAvailable | psycopg.errors.QueryCanceled):
            raise Unavailable(LOCKED) from error
        raise Unavailable(UNAVAILABLE) from error
    except (IntegrityError, StaleDataError) as error:
        raise Conflict("What this request works on was changed or removed at the same time. Try again.") from error


def check_answer(engine: Engine) -> None:
    """Raise Unavailable with the server's own words, its host and port: for operators, at a start."""
    try:
        engine.connect().close()
    except (OperationalError, InterfaceError) as error:
        url, words = engine.url, str(error.orig).strip().partition("\n")[0]
        words = re.sub(r"^(?:.* failed: +)?(?:FATAL: +)?", "", words)
        place = f"'{url.database}' at {url.host or 'localhost'}:{url.port or POSTGRESQL_PORT}"
        if url.get_backend_name() == "sqlite":
            place = str(url.database)
        raise Unavailable(f"The metadata database {place} cannot be used: {words}.") from error


class Database:
    """Opens sessions: a `read` or `write` block is one transaction, committed at its end.

    Both raise Unavailable when the database does not answer or stays locked, and Conflict when a concurrent transaction
    deleted a row that this one needs, or took a unique name. The `info` of a session has the instance's settings.
    """

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine = engine
        self._is_postgresql = engine.dialect.name == "postgresql"
        # PostgreSQL in READ COMMITTED gives reads no snapshot, so BEGIN and ROLLBACK are wasted round trips
        readers = engine.execution_options(isolation_level="AUTOCOMMIT") if self._is_postgresql else engine
        info = {"settings": settings}
        self._single_readers = readers if self._is_postgresql else engine.execution_options(single_statement=True)
        self._open_reader = sessionmaker(readers, expire_on_commit=False, info=info)
        self._open_writer = {
            durable: sessionmaker(
                engine.execution_options(writes=True, durable=durable), expire_on_commit=False, info=info
            )
            for durable in (True, False)
        }
        for open_writer in self._open_writer.values():
            event.listen(open_writer, "after_flush", record_changes)
        self._sqlite_lock = Lock()
        self._commits = CommitMark(settings.data / COMMITS)

    @property
    def sqlite_path(self) -> Path | None:
        return None if self._is_postgresql else Path(self.engine.url.database or "")

    def watch_commits(self) -> IdleWatch:
        """Return a watch that notices when a process of this instance has committed something."""
        return IdleWatch(self.sqlite_path or self._commits)

    def fetch_one(self, statement: Select[Any], parameters: Mapping[str, Any]) -> RowMapping | None:
        """Read one row without a session, for a fifth of its cost (docs/adr/0015): build the statement only once."""
        with translate_errors(), self._single_readers.connect() as connection:
            return connection.execute(statement, parameters).mappings().one_or_none()

    @contextmanager
    def read(self) -> Generator[Session]:
        with translate_errors(), self._open_reader() as session:
            yield session

    @contextmanager
    def write(self, *, durable: bool = True) -> Generator[Session]:
        """Without `durable`, the commit does not wait for the disk: a power failure may lose the transaction."""
        turn = nullcontext() if self._is_postgresql else self._wait_for_turn()
        with turn, translate_errors(), self._open_writer[durable].begin() as session:
            if self._is_postgresql and not durable:
                session.execute(sql("SET LOCAL synchronous_commit = off"))
            yield session
        if self._is_postgresql:
            self._commits.touch()

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _wait_for_turn(self) -> Generator[None]:
        """Let one thread write at a time: SQLite's own wait polls and is unfair, which matters within a process."""
        if not self._sqlite_lock.acquire(timeout=BUSY_TIMEOUT_SECONDS):
            raise Unavailable(UNAVAILABLE)
        try:
            yield
        finally:
            self._sqlite_lock.release()


def open_database(settings: Settings, connections: int = OTHER_CONNECTIONS) -> Database:
    """Open the database, with at most so many connections to PostgreSQL."""
    return Database(make_engine(database_url(settings), connections), settings)


def build_upsert(session: Session, table: type[DeclarativeBase]) -> postgresql.Insert | sqlite.Insert:
    """Return an INSERT with ON CONFLICT, which both databases support but SQLAlchemy's generic one does not."""
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    return dialect.insert(table)


def execute_update(session: Session, statement: Update | Delete | Insert) -> int:
    """Execute a conditional statement and return the number of rows that met its condition."""
    result = session.execute(statement, execution_options={"synchronize_session": False})
    return cast("CursorResult[Any]", result).rowcount
