"""The locks of a PostgreSQL database: instances share one, a command has it alone, and one instance at a time leads.

A transaction holds them that stays open, so that they hold behind a pooler too, where a session has no connection of
its own. It reads no rows, and keeps nothing from being vacuumed.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from typing import Any, LiteralString

import psycopg

from core.errors import Unavailable
from core.infra.connection_pool import CONNECT_TIMEOUT_SECONDS, KEEPALIVE
from core.infra.database import UNAVAILABLE, make_address
from core.infra.settings import Settings

PRESENCE = 0x5350494E444C02  # 00 and 01 are those of migrations and of the first key
LEADERSHIP = 0x5350494E444C04
ACQUIRE_SECONDS = 2.0
POLL_SECONDS = 0.2
MAX_NAME_BYTES = 63
# the server notices within half a minute that the machine of an instance is gone
BEGIN = "; ".join(
    f"SET LOCAL {name} = {seconds}"
    for name, seconds in {
        "idle_in_transaction_session_timeout": 0,
        "tcp_keepalives_idle": 10,
        "tcp_keepalives_interval": 5,
        "tcp_keepalives_count": 3,
    }.items()
)
TRY = "SELECT pg_try_advisory_xact_lock(%s)"
TRY_SHARED = "SELECT pg_try_advisory_xact_lock_shared(%s)"
HELD: LiteralString = """ FROM pg_locks AS held JOIN pg_stat_activity AS activity USING (pid)
WHERE held.locktype = 'advisory' AND held.granted AND held.database = activity.datid
AND activity.datname = current_database() AND (held.classid::bigint << 32) + held.objid::bigint = %s"""
HOLDER: LiteralString = "SELECT activity.application_name" + HELD
COUNT: LiteralString = "SELECT count(*)" + HELD


class InstanceLock:
    """Taken by `acquire` and kept until `close`. The connection's name identifies the holder to others.

    It is shared with other instances, unless it is for a command that has the database `alone`.
    """

    def __init__(self, settings: Settings, *, alone: bool = False) -> None:
        self._address = make_address(settings)
        self._try: LiteralString = TRY if alone else TRY_SHARED
        self._leads = False
        name = f"spindle, process {os.getpid()} on {socket.gethostname()}, data folder {settings.data}"
        self._name = name.encode()[:MAX_NAME_BYTES].decode(errors="ignore")
        self._connection: psycopg.Connection[Any] | None = None

    def acquire(self) -> str | None:
        """Take the lock, or make sure that it is still held; return the name of who keeps this one from it.

        Raises Unavailable when the database does not answer. SQLite needs no lock: the data folder has one.
        """
        if self._address is None:
            return None
        try:
            if self._connection is not None:
                self._connection.execute("SELECT 1")
                return None
            return self._connect()
        except psycopg.Error as error:
            self.close()
            raise Unavailable(UNAVAILABLE) from error

    def lead(self) -> bool:
        """Try to become the instance that leads, which the first one does; return whether this one leads.

        Leadership ends with the connection, of which `acquire` notices the loss.
        """
        try:
            if self._connection is not None and not self._leads:
                self._leads = _fetch(self._connection, TRY, LEADERSHIP)
        except psycopg.Error as error:
            self.close()
            raise Unavailable(UNAVAILABLE) from error
        return self._leads or self._address is None

    def count_instances(self) -> int:
        """Return how many instances share the lock, with this one."""
        return 1 if self._connection is None else _fetch(self._connection, COUNT, PRESENCE)

    def close(self) -> None:
        """Release the lock, and leadership."""
        self._leads = False
        if self._connection is not None:
            with suppress(psycopg.Error):  # it was lost before
                self._connection.close()
        self._connection = None

    def _connect(self) -> str | None:
        parameters: dict[str, Any] = KEEPALIVE
        connection = psycopg.connect(
            self._address or "",
            application_name=self._name,
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            prepare_threshold=None,
            **parameters,
        )
        try:
            connection.execute(BEGIN)  # pyright: ignore[reportArgumentType, reportCallIssue]
            deadline = time.monotonic() + ACQUIRE_SECONDS  # an instance that was killed still has it for a moment
            while not _fetch(connection, self._try, PRESENCE):
                if time.monotonic() > deadline:
                    return _fetch(connection, HOLDER, PRESENCE) or "unknown"
                time.sleep(POLL_SECONDS)
            self._connection = connection
            return None
        finally:
            if self._connection is not connection:
                connection.close()


def _fetch(connection: psycopg.Connection[Any], query: LiteralString, lock: int) -> Any:
    row = connection.execute(query, [lock]).fetchone()
    return row and row[0]
