from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from core.data.sql.embedded.pool import Pool
from tests.support.trino import ENGINES
from tests.support.warehouse import Warehouse, make_warehouse


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Generator[Pool]:
    pool = Pool(tmp_path_factory.mktemp("sql"))
    yield pool
    pool.close()


@pytest.fixture(scope="session", params=ENGINES)
def warehouse(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, pool: Pool
) -> Generator[Warehouse]:
    """`acme` has shop.products, archive.products, shop.empty and default.notes; `rival` has vault.secrets."""
    yield from make_warehouse(tmp_path_factory.mktemp("data"), pool, request.param)


@pytest.fixture(params=ENGINES)
def fresh_warehouse(request: pytest.FixtureRequest, tmp_path: Path, pool: Pool) -> Generator[Warehouse]:
    yield from make_warehouse(tmp_path, pool, request.param)
