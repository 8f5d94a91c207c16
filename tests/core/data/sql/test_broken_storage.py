"""Queries and downloads of a storage that refuses connections or hangs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from core.data.sql.catalog import Table
from core.data.sql.embedded.engine import DuckDbEngine, WorkerLimits
from core.data.sql.embedded.pool import Pool
from core.data.sql.engine import EngineQuery, Relation
from core.errors import BadInput, TimedOut, Unavailable
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.infra.storage.protocol import Storage
from core.tables import new_id


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(Settings(data=tmp_path).storage)


@pytest.fixture
def address() -> Iterator[str]:
    """An address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/rows.parquet"


def run(pool: Pool, storage: Storage, address: str, seconds: float) -> None:
    limits = WorkerLimits(pool, seconds)
    table = Table("id", "shop", "goods", (), "parquet", ("organization/a",), None, 1, 1)
    relation = Relation(table, ("shop.goods",), (address,))
    query = EngineQuery(new_id(), "organization", 'SELECT count(*) FROM "shop.goods"', (relation,))
    DuckDbEngine(storage, limits, limits).run(query)


def refuse() -> None:
    raise Unavailable("The service's storage cannot be used: it does not answer.", code="storage-unavailable")


def test_a_query_of_a_storage_that_hangs_says_so(
    pool: Pool, storage: Storage, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = Event()
    monkeypatch.setattr("core.data.sql.embedded.engine.CHECK_SECONDS", 0.2)
    monkeypatch.setattr(storage, "check", lambda: over.wait(60))
    with pytest.raises(Unavailable) as error:
        run(pool, storage, address, 1)
    over.set()
    assert error.value.details[0].code == "storage-unavailable"


def test_a_query_that_takes_too_long_is_told_from_it(pool: Pool, storage: Storage, address: str) -> None:
    with pytest.raises(TimedOut):
        run(pool, storage, address, 1)


@pytest.mark.long
def test_a_query_of_a_storage_that_refuses_says_so(
    pool: Pool, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = f"http://127.0.0.1:{server.getsockname()[1]}/rows.parquet"
    with pytest.raises(BadInput) as failed:
        run(pool, storage, closed, 60)
    assert failed.value.details[0].code == "query-failed"
    monkeypatch.setattr(storage, "check", refuse)
    with pytest.raises(Unavailable) as error:
        run(pool, storage, closed, 60)
    assert error.value.details[0].code == "storage-unavailable"
