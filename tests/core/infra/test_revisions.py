"""Databases of every earlier revision, with rows in every table, are brought up to date and keep what they held."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from cli.data_folder import prepare
from core.infra.database import database_url, make_engine
from core.infra.migrations import OlderSchema, create_config, migrate
from core.infra.settings import Settings
from core.tables import Base

SCRIPTS = ScriptDirectory("core/infra/migrations")
REVISIONS = [script.revision for script in reversed(list(SCRIPTS.walk_revisions()))]
ROWS = 2
AT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize("revision", REVISIONS[:-1])
def test_a_database_of_an_earlier_revision_is_brought_up_to_date(empty: Settings, revision: str) -> None:
    upgrade(empty, revision)
    with connected(empty) as connection:
        fill(connection, tables(connection))
        before = contents(connection)
    assert all(len(rows) == ROWS for rows in before.values())
    migrate(empty)
    with connected(empty) as connection:
        after = contents(connection)
        for table in before.keys() & after.keys():
            assert [shared(row, after[table][0]) for row in before[table]] == [
                shared(row, before[table][0]) for row in after[table]
            ]
        assert set(Base.metadata.tables) <= after.keys()
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_a_server_without_automatic_migration_names_the_command(empty: Settings) -> None:
    upgrade(empty, REVISIONS[-2])
    held = empty.model_copy(update={"migrate": False})
    with pytest.raises(OlderSchema, match="spindle migrate"):
        prepare(held)
    run("-m", "cli.main", "migrate", "--data", str(empty.data), settings=empty)
    prepare(held)


def test_a_server_refuses_a_newer_database_in_a_sentence(empty: Settings) -> None:
    migrate(empty)
    with connected(empty) as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    ended = run("-m", "cli.data_folder", settings=empty)
    assert ended.returncode == 1
    assert ended.stderr.strip().splitlines() == [
        "The metadata database belongs to a newer version of Spindle. Start that version instead."
    ]


def run(*arguments: str, settings: Settings) -> subprocess.CompletedProcess[str]:
    environment = {"SPINDLE_DATA": str(settings.data), "SPINDLE_DATABASE_URL": database_url(settings)}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


def upgrade(settings: Settings, revision: str) -> None:
    settings.data.mkdir(parents=True, exist_ok=True)
    with connected(settings) as connection:
        command.upgrade(create_config(connection), revision)


@contextmanager
def connected(settings: Settings) -> Iterator[sa.Connection]:
    engine = make_engine(database_url(settings)).execution_options(writes=True)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def tables(connection: sa.Connection) -> list[sa.Table]:
    """All but Alembic's own, parents first."""
    metadata = sa.MetaData()
    metadata.reflect(connection)
    return [table for table in metadata.sorted_tables if table.name != "alembic_version"]


def fill(connection: sa.Connection, found: list[sa.Table]) -> None:
    """The n-th row of a table refers to the n-th rows of others."""
    for table in found:
        for number in range(1, ROWS + 1):
            connection.execute(table.insert().values({column: value(column, number) for column in table.columns}))


def value(column: sa.Column[Any], number: int) -> Any:
    for key in column.foreign_keys:
        return value(key.column, number)
    match column.type:
        case sa.JSON():
            return {"n": number}
        case sa.Boolean():
            return True
        case sa.Integer():
            return number
        case sa.Float() | sa.Numeric():
            return number + 0.5
        case sa.DateTime():
            return AT.replace(tzinfo=AT.tzinfo if column.type.timezone else None)
        case sa.Date():
            return date(2026, 3, number)
        case sa.LargeBinary():
            return bytes([number])
        case kind:
            assert isinstance(kind, sa.String), f"no value for {column} of type {kind!r}"
            return f"{number} {column.name}"[: kind.length]


def contents(connection: sa.Connection) -> dict[str, list[dict[str, Any]]]:
    return {
        table.name: sorted((dict(row) for row in connection.execute(table.select()).mappings()), key=str)
        for table in tables(connection)
    }


def shared(row: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in row.keys() & other.keys()}
