"""Connections to PostgreSQL: few, closed when they are idle, and without anything that a pooler before it refuses.

A pooler such as PgBouncer gives every transaction another connection of the server. So the limits of statements are
no options of the startup and, behind a pooler, are set again in every transaction.
"""

from __future__ import annotations

import select
import time
from collections.abc import Mapping
from typing import Any, cast
from weakref import WeakSet

import psycopg
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool
from sqlalchemy.util.queue import Queue

CONNECT_TIMEOUT_SECONDS = 5
# statement_timeout needs a server that answers; with these the kernel gives up a connection that has gone silent
KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 15_000}
LIMITS = {"timezone": "UTC", "statement_timeout": "30s", "lock_timeout": "10s"}
SET_LIMITS = "; ".join(f"SET LOCAL {name} = '{value}'" for name, value in LIMITS.items())
POOL_TIMEOUT_SECONDS = 10
IDLE_SECONDS = 60.0
POOLED, RETURNED_AT = "pooled", "returned_at"

_pools = WeakSet["ExpiringPool"]()


class ExpiringPool(QueuePool):
    """Closes connections that were not used for IDLE_SECONDS: the first of a queue whose last is used first."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        _pools.add(self)

    def close_idle(self) -> None:
        connections = cast("Queue[ConnectionPoolEntry]", self._pool)
        before = time.monotonic() - IDLE_SECONDS
        while True:
            with connections.mutex:
                if not connections.queue or connections.queue[0].info.get(RETURNED_AT, before) > before:
                    return
                oldest = connections.queue.popleft()
            oldest.close()
            self._dec_overflow()

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        super()._do_return_conn(record)
        self.close_idle()


def close_idle_connections() -> None:
    """Close what the pools of this process did not use for a while; a return to a pool does so with its own."""
    for pool in [*_pools]:
        pool.close_idle()


def describe_pool(connections: int) -> dict[str, Any]:
    """Return the arguments of an engine that has at most so many connections."""
    return {
        "connect_args": {"connect_timeout": CONNECT_TIMEOUT_SECONDS, **KEEPALIVE},
        "hide_parameters": True,
        "poolclass": ExpiringPool,
        "pool_size": connections,
        "max_overflow": 0,
        "pool_use_lifo": True,
        "pool_timeout": POOL_TIMEOUT_SECONDS,
    }


def replace_lost(engine: Engine) -> None:
    """Have the pool replace a connection that the server has closed, which its socket shows: a ping costs a round trip.

    A machine that is gone without a word is noticed by keepalives.
    """

    def note_return(_connection: object, record: ConnectionPoolEntry) -> None:
        record.info[RETURNED_AT] = time.monotonic()

    def check_socket(connection: Any, _record: object, _proxy: object) -> None:
        try:
            sockets = select.poll()
            sockets.register(connection.fileno(), select.POLLIN)
            if sockets.poll(0):
                engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error

    event.listen(engine, "checkin", note_return)
    event.listen(engine, "checkout", check_socket)


def limit_statements(engine: Engine) -> None:
    """Set the limits of statements, once for a connection, or behind a pooler in every transaction."""
    configure_connections(engine, LIMITS)
    event.listen(engine, "connect", _prepare_nothing)
    event.listen(engine, "begin", _begin)


def configure_connections(engine: Engine, values: Mapping[str, str]) -> None:
    """Set these values once for every connection, and note which are behind a pooler, where that changes nothing."""

    def configure(connection: Any, record: ConnectionPoolEntry) -> None:
        commits, connection.autocommit = connection.autocommit, True
        record.info[POOLED] = is_pooled(connection, values)
        connection.autocommit = commits

    event.listen(engine, "connect", configure)


def is_pooled(connection: Any, values: Mapping[str, str]) -> bool:
    """Return whether a pooler is before the server; where there is none, the session gets these values.

    `connection` is psycopg's or psycopg2's. Behind a pooler, the id of the server's process is another one than that
    which the client was told, and then the values end with this statement.
    """
    columns = [f"set_config('{name}', '{value}', pg_backend_pid() <> %(pid)s)" for name, value in values.items()]
    with connection.cursor() as cursor:
        cursor.execute(
            ", ".join(("SELECT pg_backend_pid() <> %(pid)s", *columns)), {"pid": connection.info.backend_pid}
        )
        return cursor.fetchone()[0]


def _prepare_nothing(connection: psycopg.Connection[Any], record: ConnectionPoolEntry) -> None:
    """Prepare no statements behind a pooler: the next one may run on another connection."""
    if record.info[POOLED]:
        connection.prepare_threshold = None


def _begin(connection: Connection) -> None:
    """Begin a transaction behind a pooler, also for readers, which have none otherwise: their driver commits itself."""
    if connection.info[POOLED]:
        driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
        driver.execute(f"BEGIN; {SET_LIMITS}" if driver.autocommit else SET_LIMITS)  # pyright: ignore[reportArgumentType, reportCallIssue]
