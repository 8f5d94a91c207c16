from __future__ import annotations

import multiprocessing
import subprocess
import sys
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import MetaData, Table, insert, inspect, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from cli.data_folder import prepare
from core.infra.database import Database, database_url, open_database
from core.infra.migrations import NewerSchema, OlderSchema, _connect, _create_config, migrate
from core.infra.settings import Settings
from core.tables import Base


def test_migrated_schema_is_the_schema_of_the_tables(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_foreign_keys_cascade_as_declared(database: Database) -> None:
    migrated = {
        (table, key["name"], key["options"].get("ondelete"))
        for table in Base.metadata.tables
        for key in inspect(database.engine).get_foreign_keys(table)
    }
    declared = {
        (table.name, key.name, key.ondelete)
        for table in Base.metadata.tables.values()
        for key in table.foreign_key_constraints
    }
    assert migrated == declared


def test_migrating_again_changes_nothing(settings: Settings, database: Database) -> None:
    with database.write() as session:
        session.execute(text("INSERT INTO organizations VALUES ('1', 'kept', 'kept', '2026-01-01')"))
    migrate(settings)
    with database.read() as session:
        assert session.scalar(text("SELECT name FROM organizations")) == "kept"


def test_ticks_are_kept_where_the_table_of_schedules_is_replaced(empty: Settings) -> None:
    known = {"id": "1", "organization_id": "1", "project_id": "1", "schedule_id": "1", "tick_id": "1", "job_id": "1"}
    at = datetime(2027, 3, 1)  # noqa: DTZ001
    values = {"VARCHAR": "x", "TEXT": "x", "BOOLEAN": False, "INTEGER": 1, "DATETIME": at, "TIMESTAMP": at}
    empty.data.mkdir()
    with _connect(empty) as connection:
        command.upgrade(_create_config(connection), "0009")
        for name in ("organizations", "projects", "schedules", "schedule_ticks", "schedule_tick_jobs"):
            table = Table(name, MetaData(), autoload_with=connection)
            row = {
                each.name: known.get(each.name, values.get(str(each.type).partition("(")[0], {})) for each in table.c
            }
            connection.execute(insert(table).values(row))
    migrate(empty)
    with closing(open_database(empty)) as database, database.read() as session:
        assert session.scalar(text("SELECT name FROM schedules")) == ""
        assert session.scalar(text("SELECT count(*) FROM schedule_ticks")) == 1
        assert session.scalar(text("SELECT count(*) FROM schedule_tick_jobs")) == 1


@pytest.mark.long
def test_processes_that_start_at_once_migrate_once(empty: Settings) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=migrate, args=(empty,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 3
    database = open_database(empty)
    assert set(Base.metadata.tables) <= set(inspect(database.engine).get_table_names())
    database.close()


@pytest.mark.long
def test_a_newer_database_is_refused_in_a_sentence(empty: Settings) -> None:
    migrate(empty)
    database = open_database(empty)
    with database.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(NewerSchema, match="newer version of Spindle"):
        migrate(empty)
    ended = run("-m", "cli.data_folder", settings=empty)
    assert ended.returncode == 1
    assert ended.stderr.strip().splitlines() == [
        "The metadata database belongs to a newer version of Spindle. Start that version instead."
    ]


@pytest.mark.long
def test_a_server_without_automatic_migration_names_the_command(empty: Settings) -> None:
    empty.data.mkdir()
    held = empty.replace(migrate=False)
    with pytest.raises(OlderSchema, match="spindle migrate"):
        prepare(held)
    run("-m", "cli.main", "migrate", "--data", str(empty.data), settings=empty)
    prepare(held)


def test_every_table_compiles_for_postgresql() -> None:
    dialect = postgresql.dialect()
    for table in Base.metadata.sorted_tables:
        assert str(CreateTable(table).compile(dialect=dialect))
        for index in table.indexes:
            assert str(CreateIndex(index).compile(dialect=dialect))


def test_only_its_owner_can_read_the_data_folder(tmp_path: Path) -> None:
    migrate(Settings(data=tmp_path / "data"))
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0


def run(*arguments: str, settings: Settings) -> subprocess.CompletedProcess[str]:
    environment = {"SPINDLE_DATA": str(settings.data), "SPINDLE_DATABASE_URL": database_url(settings)}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
