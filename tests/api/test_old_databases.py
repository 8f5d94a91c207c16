"""The newest code serves the databases that earlier versions have written, on SQLite and PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from sqlalchemy import text
from starlette.concurrency import run_in_threadpool

from api.app import create_app
from api.kit.services import run_services
from api.plugins.routes import migrate_plugins
from cli.data_folder import prepare
from core.infra.database import open_database
from core.infra.installation import adopt
from core.infra.migrations import UnfrozenSchema, _connect, check_current, migrate
from core.infra.settings import Settings
from core.infra.storage import open_storage
from tests.api.operations import OPENAPI, operations_of
from tests.support.api import Api, running
from tests.support.old_databases import (
    FOLDER,
    SECRET_KEY,
    compute_digests,
    list_revisions,
    load_database,
)
from tests.support.postgres import new_database
from tests.support.service import PATIENCE_SECONDS

# these read files, ask another process, or are about the caller, who is a key here
NOT_STORED = (
    *("/datasets/query/columns", "/queries/{queryId}/results", "/datasets/{datasetId}/download"),
    *("/selectors/{selectorsId}", "/package/import/all", "/package/import/id/{projectId}", "/health"),
    *("/executions/{executionId}/pages", "/people/me", "/people/me/api-keys"),
)
APP = create_app(Settings())
READS = [
    each
    for each in operations_of(OPENAPI)
    if each.method == "GET" and not each.streams and not each.path.endswith(NOT_STORED)
]


KINDS, (OLDEST, *_, NEWEST) = ("sqlite", "postgresql"), list_revisions()
# from the oldest on, all migrations run
PLACES = [
    pytest.param(kind, each, marks=() if kind == "sqlite" or each in (OLDEST, NEWEST) else pytest.mark.long)
    for kind in KINDS
    for each in list_revisions()
]


@pytest.fixture
def settings(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Settings]:
    if request.param == "sqlite":
        yield Settings(data=tmp_path / "data")
        return
    with new_database(request.getfixturevalue("postgres")) as url:
        yield Settings(data=tmp_path / "data", database_url=SecretStr(url))


@pytest.mark.parametrize(("settings", "revision"), PLACES, indirect=["settings"])
def test_reads_of_an_old_database_are_answered(settings: Settings, revision: str) -> None:
    stored = load_database(settings, revision)
    migrate(settings)
    kept = settings.replace(secret_key=SecretStr(SECRET_KEY), requests_per_minute=1_000_000)
    with closing(open_database(kept)) as database:  # its files are not here
        adopt(kept, database, open_storage(kept.storage))
    prepare(kept)
    with serve(kept) as client:
        api = Api(client, kept, stored["organization"], stored["key"])
        world = stored["world"]
        failed = [
            f"{each}: {answer.status_code} {answer.text[:160]}"
            for each in READS
            if {*each.path_parameters} <= {*world}
            if not (answer := api.call("GET", each.path.format_map(world), params=each.query)).is_success
        ]
    assert failed == []


@contextmanager
def serve(settings: Settings) -> Iterator[httpx.Client]:
    """Serve a database with the one application of this file: to make one costs more than to serve it."""

    @asynccontextmanager
    async def open_services(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(migrate_plugins, settings)
        async with run_services(settings) as APP.state.services:
            yield

    APP.router.lifespan_context = open_services
    with running(APP) as url, httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as client:
        yield client


def test_migrations_that_have_landed_are_not_edited_and_the_newest_has_a_stored_database() -> None:
    digests = compute_digests()
    assert list_revisions()[-1] == max(digests), "run `python -m tests.support.old_databases`, and keep what it writes"
    for revision in list_revisions():
        stored = json.loads((FOLDER / f"{revision}.json").read_text())["migrations"]
        assert stored == {each: digests[each] for each in stored}, "add a migration in place of editing one"


@pytest.mark.parametrize("settings", KINDS, indirect=True)
def test_a_database_with_edited_migrations_is_refused_by_name(settings: Settings) -> None:
    migrate(settings)
    with _connect(settings) as connection:
        connection.execute(text("ALTER TABLE projects DROP COLUMN description"))
    with pytest.raises(UnfrozenSchema, match=r"before 2026-11-28.*projects\.description is missing"):
        migrate(settings)
    with pytest.raises(UnfrozenSchema):
        check_current(settings)
