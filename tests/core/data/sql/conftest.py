from __future__ import annotations

from collections.abc import Generator

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


@pytest.fixture(scope="session", params=ENGINES)
def busy_warehouse(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, pool: Pool
) -> Generator[Warehouse]:
    """The same tables once more; tests publish further ones, each under a name of its own."""
    yield from make_warehouse(tmp_path_factory.mktemp("busy"), pool, request.param)
