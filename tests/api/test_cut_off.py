"""Connections that the database cuts cost nobody who reads anything, also where that takes several statements."""

from __future__ import annotations

import time
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

OTHERS = ("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
          " AND datname = current_database()")  # fmt: skip
READERS = f"{OTHERS} AND query NOT IN ('COMMIT', 'ROLLBACK')"  # what the others have said last
READS = ["/projects", "/projects/id/{id}/jobs", "/agents", "/categories", "/auth/api-keys", "/datasets"]


@pytest.fixture(scope="module")
def url(postgres: str) -> Iterator[str]:
    with new_database(postgres) as url:
        yield url


@pytest.fixture(scope="module")
def server(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = Settings(data=tmp_path_factory.mktemp("cut"), database_url=SecretStr(url))
    migrate(settings)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("core.infra.database.TRUSTED_SECONDS", 3600)  # too short a time for the pool to ask
        patched.setattr("api.kit.services.IDLE_SECONDS", 3600)  # nor does anybody else
        with running(create_app(settings)) as address, httpx.Client(base_url=address, timeout=60) as client:
            yield Server(client, settings)


@pytest.fixture(scope="module")
def caller(server: Server) -> Api:
    return server.caller("acme", "admin")


@pytest.fixture(scope="module")
def project(caller: Api) -> str:
    return caller.job("Shop").project_id


@pytest.fixture
def cut(url: str) -> Callable[..., None]:
    def cut(which: str = OTHERS) -> None:
        engine = make_engine(url)
        with engine.connect() as connection:
            assert connection.execute(text(which)).all()
        engine.dispose()

    return cut


def around(cut: Callable[[], None], call: Callable[[], httpx.Response]) -> tuple[httpx.Response, httpx.Response]:
    """The answers before and after, of one minute: the first requests of each are counted by a write."""
    while True:
        minute = time.time() // 60
        _, _, before = call(), call(), call()
        cut()
        after = call()
        if time.time() // 60 == minute:
            return before, after


def write(caller: Api) -> None:
    while caller.call("POST", "/categories", json={"name": "Again and again"}).status_code == 503:
        pass  # of connections that were cut before


def left(answer: httpx.Response) -> int:
    return int(answer.headers["RateLimit-Remaining"])


@pytest.mark.parametrize("path", READS)
def test_a_read_that_is_cut_off_is_made_again(caller: Api, project: str, cut: Callable[[], None], path: str) -> None:
    before, after = around(cut, lambda: caller.call("GET", path.format(id=project)))
    assert answered(before) == answered(after)
    assert left(before) - left(after) == 1


def test_a_key_that_is_looked_up_over_a_cut_connection_is_looked_up_again(
    server: Server, caller: Api, cut: Callable[..., None]
) -> None:
    """Those that read are cut; the key's first request is a write, of which nothing else is made again."""
    first = server.caller("rival", "admin")
    write(caller)
    assert caller.call("GET", "/projects").status_code == 200
    cut(READERS)
    assert first.call("POST", "/projects", json={"name": "First"}).status_code == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_keys_first_request_is_answered_over_new_connections(
    server: Server, caller: Api, cut: Callable[[], None], method: str
) -> None:
    """All are cut: that which its look-up reads, and that which its use and its requests are noted over."""
    first = server.caller(f"first {method}", "admin")
    write(caller)
    assert caller.call("GET", "/projects").status_code == 200
    cut()
    assert first.call(method, "/projects", json={"name": "First"}).status_code == 200


def test_a_write_that_is_cut_off_is_left_to_the_caller(caller: Api, cut: Callable[[], None]) -> None:
    write(caller)
    cut()
    answer = caller.call("POST", "/projects", json={"name": "After"})
    assert (answer.status_code, "Retry-After" in answer.headers) == (503, True)
    assert caller.call("POST", "/projects", json={"name": "After"}).status_code == 200
