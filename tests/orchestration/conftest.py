from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from core.infra.database import open_database
from core.infra.migrations import migrate
from core.infra.settings import Settings
from tests.support.shop import Shop, make_shop


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path / "data")


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def shop(settings: Settings) -> Iterator[Shop]:
    """An organization with a job, in the database of `settings`, which tests replace by their own."""
    migrate(settings)
    with closing(open_database(settings)) as database:
        yield make_shop(settings, database)
