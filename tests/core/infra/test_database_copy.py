"""A copy of a whole metadata database, as the stored one, in PostgreSQL."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from pydantic import SecretStr
from sqlalchemy import inspect, select, text
from typer.testing import CliRunner, Result

from cli.data_folder import lock_data_folder
from cli.main import main
from core.infra.database import open_database
from core.infra.migrations import _connect, migrate
from core.infra.settings import Settings
from core.tables import Base, PluginBuild
from tests.support.old_databases import list_revisions, load_database
from tests.support.postgres import new_database


def run_spindle(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments])


def test_all_rows_are_copied_to_postgresql(tmp_path: Path, postgres: str) -> None:
    source = Settings(data=tmp_path / "data")
    load_database(source, list_revisions()[-1])
    migrate(source)
    with _connect(source) as connection:
        connection.execute(text("CREATE TABLE weather_stations (id INTEGER)"))
    with new_database(postgres) as url:
        command = ("copy-database", url, "--data", str(source.data))
        with lock_data_folder(source.data):
            assert "Another Spindle is running" in run_spindle(*command).stderr
        copied = run_spindle(*command)
        assert copied.exit_code == 0, copied.stderr
        assert "Tables of plugins are not copied: weather_stations." in copied.stdout
        target = source.replace(database_url=SecretStr(url))
        with closing(open_database(source)) as before, closing(open_database(target)) as after:
            for table in Base.metadata.sorted_tables:
                with before.read() as old, after.read() as new:
                    assert sorted(map(str, old.execute(select(table)))) == sorted(map(str, new.execute(select(table))))
            with after.write() as session:  # ids go on after the copied ones
                kept = session.scalars(select(PluginBuild)).first()
                assert kept is not None
                names = [each.key for each in inspect(PluginBuild).columns if each.key not in ("id", "plugin_id")]
                session.add(PluginBuild(plugin_id="next", **{name: getattr(kept, name) for name in names}))
        again = run_spindle(*command)
        assert again.exit_code == 1
        assert "already has rows in the table" in again.stderr


def test_a_database_in_use_is_refused_before_it_is_changed(tmp_path: Path, postgres: str) -> None:
    source = Settings(data=tmp_path / "data")
    migrate(source)
    with new_database(postgres) as url:
        target = Settings(data=tmp_path / "other", database_url=SecretStr(url))
        load_database(target, list_revisions()[0])
        refused = run_spindle("copy-database", url, "--data", str(source.data))
        assert (refused.exit_code, "already has rows" in refused.stderr) == (1, True)
        with _connect(target) as connection:
            assert connection.scalar(text("SELECT version_num FROM alembic_version")) == list_revisions()[0]
