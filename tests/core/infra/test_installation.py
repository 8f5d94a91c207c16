"""A database, a storage and a service key belong together: strangers are refused before they delete anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from errno import ENOSPC
from io import BytesIO
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import create_engine, delete, make_url, text, update
from structlog.testing import capture_logs
from typer.testing import CliRunner

from cli.data_folder import prepare
from cli.main import main
from core.data.datasets.collector import FileCollector
from core.data.datasets.missing_files import report_missing
from core.errors import Conflict, Unavailable
from core.infra.database import database_url, open_database
from core.infra.installation import (
    MARKER,
    ForeignInstallation,
    check_installation,
    establish_installation,
    open_guarded_storage,
    renew_token,
)
from core.infra.instance_lock import InstanceLock
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.infra.storage.local import LocalStorage
from core.infra.storage.protocol import output_key
from core.tables import Dataset, DatasetVersion, Installation, Organization, new_id, now
from core.tables.base import Base
from tests.support.postgres import new_database

KEY, OTHER_KEY = SecretStr("the key of thirty-two letters or so"), SecretStr("another key of thirty-two letters")


@pytest.fixture
def original(empty: Settings, tmp_path: Path) -> Settings:
    """A service that has been started once, whose storage is outside of its data folder."""
    settings = empty.replace(storage=str(tmp_path / "files"))
    prepare(settings)
    return settings


@pytest.fixture
def copied(original: Settings, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Settings]:
    """The same with a copy of the database and of the service key, in another data folder."""
    data = tmp_path / "copy"
    data.mkdir()
    shutil.copy(original.data / "secret-key", data)
    with ExitStack() as stack:
        copy = original.replace(data=data)
        if original.database.url is not None:
            url = stack.enter_context(new_database(request.getfixturevalue("postgres")))
            copy = copy.replace(database_url=SecretStr(url))
        copy_database(original, copy)
        yield copy


def copy_database(source: Settings, target: Settings) -> None:
    """Copy all tables, as a backup that is restored does."""
    if source.database.url is None or target.database.url is None:
        with closing(open_database(source)) as database, database.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        for suffix in ("-wal", "-shm"):
            (target.data / f"spindle.db{suffix}").unlink(missing_ok=True)
        shutil.copyfile(source.data / "spindle.db", target.data / "spindle.db")
        return
    urls = [make_url(each.database.url.get_secret_value()) for each in (source, target) if each.database.url]
    server = create_engine(urls[0].set(drivername="postgresql+psycopg", database="postgres"))
    with server.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.execute(text(f"DROP DATABASE {urls[1].database}"))
        connection.execute(text(f"CREATE DATABASE {urls[1].database} TEMPLATE {urls[0].database}"))
    server.dispose()


def check(settings: Settings) -> None:
    with closing(open_database(settings)) as database:
        check_installation(settings, database, open_storage(settings.storage))


def read_marker(settings: Settings) -> bytes:
    return (Path(settings.storage.address or "") / MARKER).read_bytes()


def run_adopt(settings: Settings, *options: str) -> tuple[int, str]:
    environment = {"SPINDLE_DATABASE_URL": database_url(settings), "SPINDLE_STORAGE": settings.storage.address}
    done = CliRunner().invoke(main, ["adopt", "--data", str(settings.data), *options], env=environment)
    return done.exit_code, done.output


def store_output(settings: Settings) -> str:
    """Store a file of an execution that the database does not know; return its key."""
    with closing(open_database(settings)) as database, database.read() as session:
        key = f"{output_key(session.query(Organization).one().id, new_id(), 1)}/part-0"
    open_storage(settings.storage).put(key, BytesIO(b"rows"))
    return key


def sweep(settings: Settings) -> None:
    """Delete what no version names, as after some days."""
    with closing(open_database(settings)) as database:
        collector = FileCollector(settings, database, open_guarded_storage(settings, database))
        for days in (3, 6):
            collector.sweep(now() + timedelta(days=days))
            collector.collect(now() + timedelta(days=days + 2))


def has(settings: Settings, key: str) -> bool:
    return bool([*open_storage(settings.storage).list(key.rpartition("/")[0])])


def test_a_copied_database_is_refused_on_the_storage_of_the_original(original: Settings, copied: Settings) -> None:
    with pytest.raises(ForeignInstallation) as refused:
        prepare(copied)
    sentence = str(refused.value)
    shown = [make_url(database_url(each)) for each in (original, copied)]
    for part in (*(f"database {each.set(password=None)}" for each in shown), f"storage {original.storage.address}"):
        assert part in sentence
    assert "`spindle adopt --copy`" in sentence
    assert sentence.endswith("[foreign-installation]")
    assert not shown[0].password or shown[0].password not in sentence
    key = store_output(original)
    with pytest.raises(ForeignInstallation):
        sweep(copied)
    assert has(original, key)
    prepare(original)


def test_another_data_folder_is_refused_before_it_makes_a_key(original: Settings, tmp_path: Path) -> None:
    data = tmp_path / "other"
    data.mkdir()
    url = SecretStr(database_url(original))
    stranger = Settings(data=data, database_url=url).replace(storage=str(data / "storage"))
    with pytest.raises(ForeignInstallation, match=f"{original.storage.address}, and not to .* {data}/storage"):
        prepare(stranger)
    with pytest.raises(ForeignInstallation, match=r"no service key for the database .* and the storage"):
        prepare(stranger.replace(storage=original.storage.address))
    with pytest.raises(ForeignInstallation, match="service key is not that of"):
        prepare(stranger.replace(storage=original.storage.address, secret_key=OTHER_KEY))
    assert not (data / "secret-key").exists()
    assert not (data / "admin-key").exists()


def test_a_storage_of_another_service_and_an_empty_one_are_refused(original: Settings, tmp_path: Path) -> None:
    new = Settings(data=tmp_path / "new", database_url=None).replace(storage=original.storage.address)
    with pytest.raises(ForeignInstallation, match="belongs to the database"):
        prepare(new)
    other = new.replace(storage=str(tmp_path / "other files"))
    prepare(other)
    with pytest.raises(ForeignInstallation, match=r"belongs to the database .*, and the database .* to the storage"):
        prepare(original.replace(storage=other.storage.address))
    (Path(original.storage.address or "") / MARKER).write_text("{")
    with pytest.raises(ForeignInstallation, match="has lost its file"):
        prepare(original)
    assert run_adopt(original)[0] == 0
    prepare(original)


def test_a_copy_has_a_storage_of_its_own_and_deletes_nothing_else(
    original: Settings, copied: Settings, tmp_path: Path
) -> None:
    key = store_output(original)
    code, sentence = run_adopt(copied, "--copy")
    assert (code, "belongs to the original" in sentence) == (1, True)
    taken = original.replace(data=tmp_path / "third", database_url=None, storage=str(tmp_path / "third files"))
    prepare(taken)
    code, sentence = run_adopt(copied.replace(storage=taken.storage.address), "--copy")
    assert (code, "belongs to the database sqlite" in sentence) == (1, True)

    copied = copied.replace(storage=str(tmp_path / "copied files"))
    shutil.copytree(original.storage.address or "", copied.storage.address or "")
    code, printed = run_adopt(copied, "--copy")
    assert (code, f"copy of the service whose storage is {original.storage.address}," in printed) == (0, True)
    prepare(copied)
    sweep(copied)
    assert (has(copied, key), has(original, key)) == (False, True)
    prepare(original)
    with pytest.raises(ForeignInstallation):
        prepare(copied.replace(storage=original.storage.address))
    assert "this service is a copy" in str(report_missing(open_storage(copied.storage), "version 1"))
    assert "another program" in str(report_missing(open_storage(original.storage), "version 1"))


def test_an_adopted_database_takes_the_storage_from_the_one_before(original: Settings, copied: Settings) -> None:
    key = store_output(original)
    with closing(open_database(original)) as database:
        running = open_guarded_storage(original, database)
        code, printed = run_adopt(copied)
        assert (code, "is refused on this storage" in printed) == (0, True)
        with capture_logs() as lines, pytest.raises(Conflict, match="deletes no files"):
            running.delete(key)
        assert "belongs to the database" in lines[0]["reason"]
    assert has(original, key)
    with pytest.raises(ForeignInstallation):
        prepare(original)
    prepare(copied)
    sweep(copied)
    assert not has(copied, key)


def test_an_earlier_state_of_the_database_is_refused(original: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, before, earlier = open_storage(original.storage), read_marker(original), read_tokens(original)
    with closing(open_database(original)) as database:
        with monkeypatch.context() as disk:
            disk.setattr(LocalStorage, "put", refuse_as_full)
            with pytest.raises(Unavailable, match="no space"):
                renew_token(original, database, storage)
        renew_token(original, database, storage)
        renewed = read_marker(original)
        storage.put(MARKER, BytesIO(before))  # killed before it was written
        check_installation(original, database, storage)
        renew_token(original, database, storage)
        check_installation(original, database, storage)
        assert read_marker(original) != renewed
        with database.write() as session:  # restored in its place, from a backup or a snapshot of the disk
            session.execute(update(Installation).values(earlier))
    with pytest.raises(ForeignInstallation, match="older than the storage"):
        prepare(original)
    assert run_adopt(original)[0] == 0
    prepare(original)


def test_a_database_that_is_restored_at_the_same_address_is_adopted(original: Settings, copied: Settings) -> None:
    copy_database(copied, original)
    if original.database.url is None:  # its file is the same one, with the content of the copy
        prepare(original)
        return
    with pytest.raises(ForeignInstallation, match="was replaced by this copy or restore"):
        prepare(original)
    assert "is refused on this storage" not in run_adopt(original)[1]
    prepare(original)


def test_a_new_database_does_not_adopt_the_storage_of_another(original: Settings, tmp_path: Path) -> None:
    mistyped = Settings(data=tmp_path / "mistyped", storage=str(open_storage(original.storage).path("x").parent))
    assert "There is no data folder" in run_adopt(mistyped)[1]
    assert not mistyped.data.exists()
    mistyped.data.mkdir()
    code, said = run_adopt(mistyped)
    assert code == 1
    assert "is new, and the storage" in said
    prepare(original)


def refuse_as_full(*_: object) -> None:
    raise OSError(ENOSPC, "")


def read_tokens(settings: Settings) -> dict[str, str | None]:
    with closing(open_database(settings)) as database, database.read() as session:
        row = session.query(Installation).one()
        return {"token": row.token, "previous_token": row.previous_token}


def test_an_installation_of_an_earlier_version_is_adopted_and_logged(original: Settings) -> None:
    forget(original)
    with capture_logs() as lines:
        prepare(original)
    assert [line["event"] for line in lines] == ["database and storage belong together"]
    with capture_logs() as lines:
        prepare(original)
    assert lines == []
    marker = Path(original.storage.address or "") / MARKER
    written = marker.read_text()
    forget(original)
    marker.write_text(written)
    with pytest.raises(ForeignInstallation, match="is new, or was restored from a backup"):  # of before the upgrade
        prepare(original)
    marker.write_text(written.replace('"is_pending": false', '"is_pending": true'))
    prepare(original)  # the first start was killed after it had written the marker
    assert '"is_pending": false' in marker.read_text()


def test_an_installation_of_an_earlier_version_with_other_parts_is_refused(original: Settings, tmp_path: Path) -> None:
    forget(original)
    (original.data / "secret-key").rename(original.data / "kept")
    with pytest.raises(ForeignInstallation, match="no service key"):
        prepare(original)
    code, sentence = run_adopt(original, "--copy")
    assert (code, "does not say which storage" in sentence) == (1, True)
    (original.data / "kept").rename(original.data / "secret-key")
    store_output(original)
    with closing(open_database(original)) as database, database.write() as session:
        owner = session.query(Organization).one().id
        dataset = Dataset(organization_id=owner, **fill(Dataset, id=new_id()))
        session.add(dataset)
        session.flush()
        session.add(DatasetVersion(**fill(DatasetVersion, dataset_id=dataset.id)))
    with pytest.raises(ForeignInstallation, match="none of their files"):
        prepare(original.replace(storage=str(tmp_path / "empty")))
    prepare(original)


def fill(table: type[Base], **values: object) -> dict[str, object]:
    """Return some value for each column that must have one and has no default."""
    kinds: dict[type, object] = {str: "x", int: 1, bool: False, dict: {}, list: []}
    needed = [
        column
        for column in table.__table__.columns
        if not column.nullable and column.default is None and column.key not in {*values, "organization_id"}
    ]
    return {column.key: kinds.get(column.type.python_type, now()) for column in needed} | values


def forget(settings: Settings) -> None:
    """Remove what this version has recorded."""
    with closing(open_database(settings)) as database, database.write() as session:
        session.execute(delete(Installation))
    open_storage(settings.storage).delete(MARKER)


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_renamed_folder_and_a_copy_of_the_whole_folder_start(original: Settings, tmp_path: Path) -> None:
    original.data.rename(tmp_path / "renamed")
    prepare(original.replace(data=tmp_path / "renamed"))
    whole = Settings(data=tmp_path / "whole").replace(storage=None)
    prepare(whole)
    shutil.copytree(whole.data, tmp_path / "twin")
    twin = whole.replace(data=tmp_path / "twin")
    prepare(twin)
    with pytest.raises(ForeignInstallation):
        prepare(twin.replace(storage=str(whole.data / "storage")))
    shutil.rmtree(twin.data / "storage")
    (twin.data / "storage").symlink_to(whole.data / "storage")
    with pytest.raises(ForeignInstallation):
        prepare(twin)


@pytest.mark.parametrize("kind", ["postgresql"])
def test_rotation_is_refused_beside_a_service_and_for_another_key(original: Settings) -> None:
    environment = {"SPINDLE_DATABASE_URL": database_url(original)}
    command = ["secrets", "rotate", "--data", str(original.data)]
    service = InstanceLock(original.replace(data=Path("elsewhere")))
    assert service.acquire() is None
    refused = CliRunner().invoke(main, command, env=environment)
    adopting = run_adopt(original)
    service.close()
    assert (refused.exit_code, "running on this database: spindle, process" in refused.output) == (1, True)
    assert (adopting[0], "running on this database" in adopting[1]) == (1, True)
    wrong = {**environment, "SPINDLE_SECRET_KEY": KEY.get_secret_value()}
    new = {**wrong, "SPINDLE_NEW_SECRET_KEY": OTHER_KEY.get_secret_value()}
    refused = CliRunner().invoke(main, command, env=new)
    assert (refused.exit_code, "is not that of this database" in refused.output) == (1, True)
    before = (original.data / "secret-key").read_text()
    assert CliRunner().invoke(main, command, env=environment).exit_code == 0
    prepare(original)
    (original.data / "secret-key").write_text(before)
    with pytest.raises(ForeignInstallation, match="service key is not that of"):
        prepare(original)
    code, printed = run_adopt(original)
    assert (code, "write the stored secrets again" in printed) == (0, True)
    prepare(original)


@pytest.mark.parametrize("kind", ["postgresql"])
def test_an_ordinary_user_of_the_database_may_start(original: Settings) -> None:
    url, name = make_url(database_url(original)), f"user_{new_id()[-12:]}"
    with closing(open_database(original)) as database, database.engine.begin() as connection:
        connection.execute(text(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'"))
        connection.execute(text(f"GRANT pg_read_all_data TO {name}"))
    try:
        user = url.set(username=name, password="secret").render_as_string(hide_password=False)
        check(original.replace(database_url=SecretStr(user)))
    finally:
        with closing(open_database(original)) as database, database.engine.begin() as connection:
            connection.execute(text(f"DROP OWNED BY {name}; DROP ROLE {name}"))


@pytest.mark.long
@pytest.mark.parametrize("module", ["cli.main up", "api", "core.training", "orchestration.launcher"])
@pytest.mark.parametrize("kind", ["sqlite"])
def test_every_process_ends_with_the_sentence(original: Settings, copied: Settings, module: str) -> None:
    told = {"SPINDLE_DATA": str(copied.data), "SPINDLE_STORAGE": copied.storage.address or "", "DAGSTER_HOME": "/tmp"}
    ended = subprocess.run(
        [sys.executable, "-m", *module.split()],
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 1
    assert f"The storage {original.storage.address} belongs to the database" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_new_database_is_recorded_without_a_word(empty: Settings, tmp_path: Path) -> None:
    settings = empty.replace(storage=str(tmp_path / "files"))
    with capture_logs() as lines:
        prepare(settings)
    assert lines == []
    with closing(open_database(settings)) as database:
        establish_installation(settings, database, open_storage(settings.storage))
        with database.read() as session:
            stored = " ".join(str(each) for each in session.execute(text("SELECT * FROM installation")).one())
    assert (settings.data / "secret-key").read_text().strip() not in stored
