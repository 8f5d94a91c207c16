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
from sqlalchemy import Connection, inspect, text

from core.errors import SpindleError
from core.infra.database import check_answer, database_url, make_engine, translate_errors
from core.infra.settings import Settings
from core.tables import Base

LOCK = 0x5350494E444C00


class NewerSchema(SpindleError):
    """The database was written by a newer version of Spindle."""


class UnfrozenSchema(SpindleError):
    """The database has the number of this version but not its columns: its migrations have been edited since."""


class OlderSchema(SpindleError):
    """The database was written by an older version of Spindle, and migration at start is switched off."""


def migrate(settings: Settings) -> None:
    """Upgrade the database to this version; one process at a time does so.

    Raise NewerSchema when the database is ahead of this version, and UnfrozenSchema when it cannot be upgraded.
    """
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _connect(settings) as connection:
        _upgrade(connection)


def check_current(settings: Settings) -> None:
    """Raise NewerSchema, OlderSchema or UnfrozenSchema unless the database is at this version."""
    with _connect(settings) as connection:
        scripts = ScriptDirectory.from_config(_create_config(connection))
        if _check_known(connection, scripts) != set(scripts.get_heads()):
            raise OlderSchema("The metadata database is older than this version of Spindle. Run `spindle migrate`.")
        _check_columns(connection)


def migrate_plugin(settings: Settings, name: str, folder: Path) -> None:
    """Upgrade the tables of a plugin by its own revisions, which have a version table of their own.

    Raise OlderSchema where they are due and migration at start is switched off.
    """
    with _connect(settings) as connection:
        _lock(connection)
        config = _create_config(connection, f"alembic_version_{name.replace('-', '_')}")
        config.set_main_option("path_separator", "newline")
        config.set_main_option("version_locations", str(folder).replace("%", "%%"))
        if settings.database.migrate:
            command.upgrade(config, "heads")
            return
        options = {"version_table": config.attributes["version_table"]}
        current = MigrationContext.configure(connection, opts=options).get_current_heads()
        if {*current} != {*ScriptDirectory.from_config(config).get_heads()}:
            raise OlderSchema(
                f"The tables of the plugin {name} are older than it. Start once with SPINDLE_MIGRATE=true."
            )


@contextmanager
def _connect(settings: Settings) -> Generator[Connection]:
    engine = make_engine(database_url(settings)).execution_options(writes=True)
    try:
        check_answer(engine)
        with _turn(settings.data / "migrate.lock"), translate_errors(), engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def _create_config(connection: Connection, version_table: str = "alembic_version") -> Config:
    """Return Alembic's configuration, which has no file."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes.update(connection=connection, version_table=version_table)
    return config


def _upgrade(connection: Connection) -> None:
    _lock(connection)
    config = _create_config(connection)
    _check_known(connection, ScriptDirectory.from_config(config))
    command.upgrade(config, "head")
    _check_columns(connection)


def _check_columns(connection: Connection) -> None:
    """Raise UnfrozenSchema where a table or column is missing: migrations were edited in place until 2026-11-28."""
    found = {
        name: {each["name"] for each in columns}
        for (_, name), columns in inspect(connection).get_multi_columns(filter_names=[*Base.metadata.tables]).items()
    }
    for table in Base.metadata.sorted_tables:
        missing = next((each.name for each in table.columns if each.name not in found.get(table.name, ())), None)
        if missing is not None:
            raise UnfrozenSchema(
                f"The metadata database was made by a version of Spindle before 2026-11-28, whose tables cannot be"
                f" upgraded: {table.name}.{missing} is missing. Write its definitions with `spindle export` of that"
                f" version, and apply them to a new database with `spindle apply`."
            )


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL lock_timeout = 0"))  # another process migrates as long as it takes
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})


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
