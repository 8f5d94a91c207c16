"""How many connections the processes of an instance may have to PostgreSQL, and whether its server allows them."""

from __future__ import annotations

from collections.abc import Mapping

import psycopg

from core.errors import Unavailable
from core.infra.connection_pool import CONNECT_TIMEOUT_SECONDS, is_pooled
from core.infra.database import OTHER_CONNECTIONS, UNAVAILABLE, make_address
from core.infra.settings import Settings

FREE = """SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"""
TOO_MANY = (
    "Warning: Spindle may open {needed} connections to PostgreSQL ({parts}), and this server has {allowed} "
    "(max_connections without those that are reserved). Set max_connections to at least {suggested}, or lower {names}."
)
NAMES = (
    "SPINDLE_DATABASE_API_CONNECTIONS, SPINDLE_DATABASE_LAUNCHER_CONNECTIONS and SPINDLE_DATABASE_DAGSTER_CONNECTIONS"
)
SPARE = 10  # for backups and people


def count_connections(settings: Settings) -> Mapping[str, int]:
    """Return the most connections of every process."""
    database = settings.database
    return {
        "api": max(database.api_connections, settings.api.workers),
        "launcher": 2 * database.launcher_connections + 1,
        "webhooks": OTHER_CONNECTIONS,
        "trainer": OTHER_CONNECTIONS,
        "code": 1 + database.dagster_connections + OTHER_CONNECTIONS,
        "ui": database.dagster_connections,
        "daemon": database.dagster_connections,
        "lock": 1,
    }


def check_connections(settings: Settings, instances: int) -> str | None:
    """Return a warning where PostgreSQL has not so many connections for all; a pooler before it lends out its own.

    Raises Unavailable.
    """
    address = make_address(settings)
    if address is None:
        return None
    try:
        with psycopg.connect(address, connect_timeout=CONNECT_TIMEOUT_SECONDS, prepare_threshold=None) as connection:
            if is_pooled(connection, {}):
                return None
            row = connection.execute(FREE).fetchone()
    except psycopg.Error as error:
        raise Unavailable(UNAVAILABLE) from error
    parts, allowed = count_connections(settings), row[0] if row else 0
    needed = sum(parts.values()) * instances
    if needed <= allowed:
        return None
    shown = ", ".join(f"{name} {count}" for name, count in parts.items())
    shown = f"{instances} instances with {shown}" if instances > 1 else shown
    return TOO_MANY.format(needed=needed, parts=shown, allowed=allowed, suggested=needed + SPARE, names=NAMES)
