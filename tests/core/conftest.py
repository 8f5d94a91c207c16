from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import create_engine, make_url, text

from core.database import Database, open_database
from core.migrations import migrate
from core.settings import Settings
from tests.core.shop import Shop, make_shop


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    """An instance with an empty database of its own, of either kind."""
    if request.param == "sqlite":
        yield Settings(data=tmp_path / "data")
        return
    url = os.environ.get("SPINDLE_TEST_POSTGRES_URL")
    if not url:
        pytest.skip("SPINDLE_TEST_POSTGRES_URL is not set")
    with postgres_database(url) as fresh:
        yield Settings(data=tmp_path / "data", database_url=SecretStr(fresh))


@contextmanager
def postgres_database(url: str) -> Generator[str]:
    location = make_url(url).set(drivername="postgresql+psycopg")
    name = f"spindle_{uuid4().hex}"
    server = create_engine(location, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
        yield location.set(database=name).render_as_string(hide_password=False)
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    server.dispose()


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    migrate(settings)
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
