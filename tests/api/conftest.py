from __future__ import annotations

import pytest

from tests.support.api import Api, Job, Server


@pytest.fixture(scope="session")
def acme(server: Server) -> Api:
    return server.caller("acme", "admin")


@pytest.fixture(scope="session")
def rival(server: Server) -> Api:
    return server.caller("rival", "admin")


@pytest.fixture
def job(acme: Api, request: pytest.FixtureRequest) -> Job:
    return acme.job(request.node.name)
