"""The metadata database: engine and sessions. SQLite (WAL) in the data folder, or PostgreSQL by one setting."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any, TypeVar, cast

import psycopg
from sqlalchemy import (
    URL,
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
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, DisconnectionError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import DeclarativeBase, Session, sessionmaker
from sqlalchemy.orm.exc import StaleDataError
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.schema import CreateSchema

from core.errors import Conflict, CutOff, Unavailable
from core.infra.settings import Settings
from core.metrics.prices import Rates, load_rates

BUSY_TIMEOUT_SECONDS = 8
CONNECT_TIMEOUT_SECONDS = 5
STATEMENT_TIMEOUT_MS = 30_000
# the server's timeout says nothing where it, or what lies between, has gone silent: the kernel gives such a peer up
SILENCE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 15_000}
POOL_SIZE = 20
WRITERS = 10  # of PostgreSQL, beside as many readers as the pool holds; one more would be opened and closed each time
TRUSTED_SECONDS = 1.0
AWAY = "The metadata database does not answer. Try again in a moment."
DAGSTER_SCHEMA = "dagster"
DAGSTER_DATABASE = "DAGSTER_DATABASE_URL"  # the environment variable that Dagster's own configuration names

Done = TypeVar("Done")


def database_url(settings: Settings) -> str:
    if settings.database_url is not None:
        return settings.database_url.get_secret_value()
    return f"sqlite:///{settings.data.resolve() / 'spindle.db'}"


def dagster_database_url(settings: Settings) -> str | None:
    """Where Dagster keeps its tables: a schema of its own in PostgreSQL; None with SQLite, it has files of its own."""
    location = make_url(database_url(settings))
    if location.get_backend_name() == "sqlite":
        return None
    location = location.set(drivername="postgresql").update_query_dict({"options": f"-csearch_path={DAGSTER_SCHEMA}"})
    return location.render_as_string(hide_password=False)


def create_dagster_schema(url: str) -> None:
    """Makes the schema where it is missing; raises Unavailable when the database does not answer."""
    engine = make_engine(url)
    try:
        with translated(), engine.begin() as connection:
            connection.execute(CreateSchema(DAGSTER_SCHEMA, if_not_exists=True))
    finally:
        engine.dispose()


def make_engine(url: str) -> Engine:
    """An engine for SQLite or PostgreSQL; its errors never carry the values of a statement."""
    location = make_url(url)
    if location.get_backend_name() == "sqlite":
        return _sqlite(url)
    return _postgresql(location.set(drivername="postgresql+psycopg"), pool_size=WRITERS)


def _postgresql(location: URL, **options: Any) -> Engine:
    session = f"-c timezone=UTC -c statement_timeout={STATEMENT_TIMEOUT_MS}"
    connect_args = {"connect_timeout": CONNECT_TIMEOUT_SECONDS, "options": session, **SILENCE}
    engine = create_engine(location, connect_args=connect_args, hide_parameters=True, max_overflow=0, **options)
    event.listen(engine, "checkin", _note_use)
    event.listen(engine, "checkout", _check_idle)
    return engine


def _note_use(_connection: Any, record: ConnectionPoolEntry) -> None:
    record.info["used"] = time.monotonic()


def _check_idle(connection: Any, record: ConnectionPoolEntry, _proxy: object) -> None:
    """Asks a connection whether it still holds when it was idle for long; the pool replaces one that does not."""
    if time.monotonic() - record.info.get("used", time.monotonic()) < TRUSTED_SECONDS:
        return
    try:
        connection.execute("")
        connection.rollback()
    except psycopg.Error as error:
        raise DisconnectionError from error


def _of_statements(engine: Engine) -> Engine:
    """For statements that are a transaction each: BEGIN and ROLLBACK around one are two journeys for nothing."""
    if engine.dialect.name == "sqlite":
        return engine.execution_options(alone=True)
    return _postgresql(engine.url, pool_size=POOL_SIZE, isolation_level="AUTOCOMMIT", skip_autocommit_rollback=True)


def _sqlite(url: str) -> Engine:
    """Transactions begin when they say so: a writer takes the lock at BEGIN, never halfway."""
    engine = create_engine(
        url,
        connect_args={"timeout": BUSY_TIMEOUT_SECONDS},
        hide_parameters=True,
        pool_size=POOL_SIZE,
        max_overflow=0,
    )
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin)
    return engine


def _configure_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver's own implicit BEGIN would come too late
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin(connection: Any) -> None:
    options = connection.get_execution_options()
    if options.get("alone"):
        return
    if not options.get("writes"):
        connection.exec_driver_sql("BEGIN")
        return
    # FULL: an acknowledged write survives a power cut; NORMAL: it may be lost in one, and is free of its wait
    level = "NORMAL" if options.get("brief") else "FULL"
    if connection.info.get("synchronous") != level:
        connection.exec_driver_sql(f"PRAGMA synchronous = {level}")
        connection.info["synchronous"] = level
    connection.exec_driver_sql("BEGIN IMMEDIATE")


@contextmanager
def translated() -> Generator[None]:
    """Tells a caller that the database is away, or that another was faster, without telling its internals."""
    try:
        yield
    except (OperationalError, InterfaceError, PoolTimeout) as error:
        raise Unavailable(AWAY) from error
    except (IntegrityError, StaleDataError) as error:
        raise Conflict("What this request works on was changed or removed at the same time. Try again.") from error


@contextmanager
def _cuts_told() -> Generator[None]:
    """Raises CutOff where the connection was cut: the pool replaces all that were made before."""
    try:
        yield
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        raise CutOff(AWAY) from error


def again(work: Callable[[], Done]) -> Done:
    """Does what may be done twice, once more over a new connection where the old one had been cut."""
    try:
        return work()
    except CutOff:
        return work()


def _turns(lock: Lock) -> Callable[[], AbstractContextManager[None]]:
    @contextmanager
    def turn() -> Generator[None]:
        if not lock.acquire(timeout=BUSY_TIMEOUT_SECONDS):
            raise Unavailable(AWAY)
        try:
            yield
        finally:
            lock.release()

    return turn


class Database:
    """Hands out sessions: one `read` or `write` block is one transaction, committed at its end.

    They raise Unavailable when the database cannot be reached or stays locked, and Conflict when a row that a
    transaction needs was removed, or a name taken, while it ran.
    """

    def __init__(self, engine: Engine, rates: Rates) -> None:
        self.engine = engine
        info = {"rates": rates}
        self._statements = _of_statements(engine)
        # in PostgreSQL each statement sees what is committed by then, in a transaction too
        readers = self._statements if engine.dialect.name == "postgresql" else engine
        self._readers = sessionmaker(readers, expire_on_commit=False, info=info)
        self._writers = sessionmaker(engine.execution_options(writes=True), expire_on_commit=False, info=info)
        self._counters = sessionmaker(engine.execution_options(writes=True, brief=True), expire_on_commit=False)
        # SQLite's own wait for the writer polls and is unfair; within one process the writers queue up instead
        self._turn = _turns(Lock()) if engine.dialect.name == "sqlite" else nullcontext

    def all(self, statement: Select[Any], values: Mapping[str, Any]) -> Sequence[RowMapping]:
        """The rows of a statement: a read that costs no more than the statement."""
        return again(lambda: self._all(statement, values))

    def _all(self, statement: Select[Any], values: Mapping[str, Any]) -> Sequence[RowMapping]:
        with translated(), _cuts_told(), self._statements.connect() as connection:
            return connection.execute(statement, values).mappings().all()

    @contextmanager
    def read(self) -> Generator[Session]:
        """Raises CutOff when the connection was cut in between: nothing of the block is repeated here."""
        with translated(), _cuts_told(), self._readers() as session:
            yield session

    @contextmanager
    def write(self) -> Generator[Session]:
        with self._turn(), translated(), self._writers.begin() as session:
            yield session

    @contextmanager
    def brief(self) -> Generator[Session]:
        """A write that is not worth waiting for the disk: a power cut may lose it, nothing else.

        Raises CutOff when the connection was cut in between, and does not know then whether it was made.
        """
        with self._turn(), translated(), _cuts_told(), self._counters.begin() as session:
            if self.engine.dialect.name == "postgresql":
                session.execute(text("SET LOCAL synchronous_commit = off"))
            yield session

    def close(self) -> None:
        self.engine.dispose()
        self._statements.dispose()


def open_database(settings: Settings) -> Database:
    return Database(make_engine(database_url(settings)), load_rates(settings))


def insert(session: Session, table: type[DeclarativeBase]) -> postgresql.Insert | sqlite.Insert:
    """An INSERT that knows ON CONFLICT, which both databases have and standard SQL has not."""
    kind = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    return kind.insert(table)


def changed(session: Session, statement: Update | Delete | Insert) -> int:
    """Runs a conditional statement and tells how many rows met its condition."""
    result = session.execute(statement, execution_options={"synchronize_session": False})
    return cast("CursorResult[Any]", result).rowcount
