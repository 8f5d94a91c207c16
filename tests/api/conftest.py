from __future__ import annotations

from collections.abc import Generator

import httpx
import pytest

from api.app import create_app
from core.identity.api_keys import bootstrap
from core.infra.database import open_database
from core.infra.migrations import migrate
from core.infra.settings import Settings
from tests.support.api import Api, Job, Server, running
from tests.support.service import PATIENCE_SECONDS


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    data, loopback = tmp_path_factory.mktemp("api"), ("127.0.0.1/32",)
    settings = Settings(data=data, fetch_allow_networks=loopback, requests_per_minute=1_000_000)
    migrate(settings)
    database = open_database(settings)
    bootstrap(database, settings)
    database.close()
    with running(create_app(settings)) as url, httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as client:
        yield Server(client, settings)


@pytest.fixture(scope="session")
def acme(server: Server) -> Api:
    return server.caller("acme", "admin")


@pytest.fixture(scope="session")
def rival(server: Server) -> Api:
    return server.caller("rival", "admin")


@pytest.fixture
def job(acme: Api, request: pytest.FixtureRequest) -> Job:
    return acme.job(request.node.name)
