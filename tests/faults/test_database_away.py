"""The database is away for a while: 503 meanwhile, and afterwards everything goes on by itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from api.app import create_app
from cli.data_folder import prepare
from core.infra.settings import Settings
from tests.support.api import running
from tests.support.postgres import cluster
from tests.support.service import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.long
PROJECTS = "/api/svc/api/projects"


@contextmanager
def client(settings: Settings) -> Generator[httpx.Client]:
    prepare(settings)
    key = (settings.data / "admin-key").read_text().strip()
    with (
        running(create_app(settings)) as url,
        httpx.Client(base_url=url, headers={"X-API-Key": key}, timeout=60) as client,
    ):
        yield client


def assert_refused(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.json()["code"]) == (503, 503), answer.text
    assert int(answer.headers["Retry-After"]) > 0


def assert_recovers(client: httpx.Client, name: str) -> None:
    wait_until(lambda: client.post(PROJECTS, json={"name": name}).status_code == 200, PATIENCE_SECONDS)
    assert name in client.get(PROJECTS).text


def test_postgresql_is_stopped_and_started(tmp_path: Path) -> None:
    with cluster() as server, client(Settings(data=tmp_path, database_url=SecretStr(server.url))) as caller:
        caller.post(PROJECTS, json={"name": "before"}).raise_for_status()
        server.stop()
        for _ in range(5):
            assert_refused(caller.get(PROJECTS))
            assert_refused(caller.post(PROJECTS, json={"name": "lost"}))
            assert caller.get("/readyz").status_code == 503
            assert caller.get("/livez").status_code == 200
        server.start()
        assert_recovers(caller, "after")
        assert caller.get("/readyz").status_code == 200
        assert {project["name"] for project in caller.get(PROJECTS).json()} == {"before", "after"}


def test_sqlite_is_locked_by_another(tmp_path: Path) -> None:
    with client(Settings(data=tmp_path)) as caller:
        caller.post(PROJECTS, json={"name": "before"}).raise_for_status()
        other = sqlite3.connect(tmp_path / "spindle.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        assert_refused(caller.post(PROJECTS, json={"name": "lost"}))
        other.execute("ROLLBACK")
        other.close()
        assert_recovers(caller, "after")
        assert {project["name"] for project in caller.get(PROJECTS).json()} == {"before", "after"}
