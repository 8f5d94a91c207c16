"""Migrations of the metadata database; `python -m core.infra.migrations` runs them."""

from __future__ import annotations

import fcntl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from core.errors import SpindleError
from core.infra.database import database_url, make_engine, translate_errors
from core.infra.settings import Settings

LOCK = 0x5350494E444C00


class NewerSchema(SpindleError):
    """The database was written by a newer version of Spindle."""


class OlderSchema(SpindleError):
    """The database was written by an older version of Spindle, and migration at start is switched off."""


def migrate(settings: Settings) -> None:
    """Upgrade the database to this version; one process at a time does so.

    Raise NewerSchema when the database is ahead of this version.
    """
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _connect(settings) as connection:
        _upgrade(connection)


def check_current(settings: Settings) -> None:
    """Raise NewerSchema or OlderSchema unless the database is at this version."""
    with _connect(settings) as connection:
        scripts = ScriptDirectory.from_config(_create_config(connection))
        if _check_known(connection, scripts) != set(scripts.get_heads()):
            raise OlderSchema("The metadata database is older than this version of Spindle. Run `spindle migrate`.")


@contextmanager
def _connect(settings: Settings) -> Generator[Connection]:
    engine = make_engine(database_url(settings)).execution_options(writes=True)
    try:
        with _turn(settings.data / "migrate.lock"), translate_errors(), engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def _create_config(connection: Connection) -> Config:
    """Return Alembic's configuration, which has no file."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    return config


def _upgrade(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    config = _create_config(connection)
    _check_known(connection, ScriptDirectory.from_config(config))
    command.upgrade(config, "head")


def _check_known(connection: Connection, scripts: ScriptDirectory) -> set[str]:
    """Return the database's revision, an empty set before the first migration; raise NewerSchema if it is unknown."""
    known = {script.revision for script in scripts.walk_revisions()}
    current = set(MigrationContext.configure(connection).get_current_heads())
    if current - known:
        raise NewerSchema("The metadata database belongs to a newer version of Spindle. Start that version instead.")
    return current


@contextmanager
def _turn(path: Path) -> Generator[None]:
    """One process of this machine at a time: SQLite cannot be turned to WAL by two at once."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
