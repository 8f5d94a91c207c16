from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copy

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from core.infra.database import Database, open_database
from core.infra.migrations import migrate
from core.infra.settings import Settings
from core.tables import Base
from tests.support.postgres import new_database
from tests.support.shop import Shop, make_shop

CORE = Path(__file__).parent


# Modules where the databases differ: locks, migrations, dialects of SQL. Others run one test on PostgreSQL each time.
BOTH_DATABASES = (
    "infra/",
    "definitions/generic_tables/",
    "definitions/test_change_reader",
    "lifecycle/usage/test_periods",
    "lifecycle/executions/test_queue",
    "lifecycle/executions/test_states",
    "lifecycle/submission/test_submit",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave other tests on PostgreSQL to runs of long tests."""
    smoked = set[Path]()
    for item in items:
        parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if parameters.get("kind") != "postgresql" or not item.path.is_relative_to(CORE):
            continue
        if item.path in smoked and not item.path.relative_to(CORE).as_posix().startswith(BOTH_DATABASES):
            item.add_marker(pytest.mark.long)
        smoked.add(item.path)


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def empty(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Settings]:
    """An instance whose database, of either kind, has no tables yet."""
    if kind == "sqlite":
        yield Settings(data=tmp_path / "data")
        return
    with new_database(request.getfixturevalue("postgres")) as url:
        yield Settings(data=tmp_path / "data", database_url=SecretStr(url))


@pytest.fixture
def settings(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    """An instance whose database, of either kind, is migrated and has no rows."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    if kind == "sqlite":
        copy(request.getfixturevalue("migrated_sqlite"), data / "spindle.db")
        return Settings(data=data)
    settings = Settings(data=data, database_url=SecretStr(request.getfixturevalue("migrated_postgres")))
    database = open_database(settings)
    with database.write() as session:  # a fraction of the time of TRUNCATE, which makes new files
        session.execute(text("SET LOCAL session_replication_role = replica"))
        session.execute(text("; ".join(f"DELETE FROM {table}" for table in Base.metadata.tables)))
    database.close()
    return settings


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("migrated")
    migrate(Settings(data=data))
    return data / "spindle.db"


@pytest.fixture(scope="session")
def migrated_postgres(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with new_database(postgres) as url:
        migrate(Settings(data=tmp_path_factory.mktemp("migrated"), database_url=SecretStr(url)))
        yield url


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    database = open_database(settings)
    yield database
    database.close()


@pytest.fixture
def shop(settings: Settings, database: Database) -> Shop:
    return make_shop(settings, database)


@pytest.fixture
def other_shop(settings: Settings, database: Database) -> Shop:
    """The same in another organization."""
    return make_shop(settings, database, "rival")
