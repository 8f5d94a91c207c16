"""After PostgreSQL has closed its connections, as on a restart, requests are answered over new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import text

from api.app import create_app
from core.infra.database import make_engine
from core.infra.migrations import migrate
from core.infra.settings import Settings
from tests.support.api import Api, Server, answered, running
from tests.support.postgres import new_database

TERMINATE = (
    "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
    " WHERE pid <> pg_backend_pid() AND datname = current_database()"
)
READS = ["/projects", "/projects/id/{id}/jobs", "/datasets"]


@pytest.fixture(scope="module")
def url(postgres: str) -> Iterator[str]:
    with new_database(postgres) as url:
        yield url


@pytest.fixture(scope="module")
def server(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = Settings(data=tmp_path_factory.mktemp("lost"), database_url=SecretStr(url))
    migrate(settings)
    with running(create_app(settings)) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield Server(client, settings)


@pytest.fixture(scope="module")
def caller(server: Server) -> Api:
    return server.caller("acme", "admin")


@pytest.fixture(scope="module")
def project(caller: Api) -> str:
    return caller.job("Shop").project_id


@pytest.fixture
def close_connections(url: str) -> Callable[[], None]:
    def close() -> None:
        engine = make_engine(url)
        with engine.connect() as connection:
            assert connection.execute(text(TERMINATE)).all()
        engine.dispose()

    return close


@pytest.mark.parametrize("path", READS)
def test_a_read_uses_a_new_connection(
    caller: Api, project: str, close_connections: Callable[[], None], path: str
) -> None:
    before = caller.call("GET", path.format(id=project))
    close_connections()
    assert answered(caller.call("GET", path.format(id=project))) == answered(before)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_first_request_of_a_key_uses_new_connections(
    server: Server, caller: Api, close_connections: Callable[[], None], method: str
) -> None:
    first = server.caller(f"first {method}", "admin")
    assert caller.call("GET", "/projects").status_code == 200
    close_connections()
    assert first.call(method, "/projects", json={"name": "First"}).status_code == 200


def test_a_write_uses_a_new_connection(caller: Api, close_connections: Callable[[], None]) -> None:
    caller.post("/categories", {"name": "Before"})
    close_connections()
    assert caller.call("POST", "/categories", json={"name": "After"}).status_code == 200
