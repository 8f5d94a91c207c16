"""The API killed with -9 at random points of a load: what it acknowledged is there, and nothing happens twice."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import func, select

from api.__main__ import main
from cli.data_folder import prepare
from core.infra.database import Database, open_database
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.infra.storage.protocol import output_key, package_key
from core.tables import DatasetVersion, Execution, OutboxMessage, Package, Project
from tests.support.api import PIPELINE, ROWS, SCHEMA
from tests.support.postgres import new_database
from tests.support.service import free_port, wait_until
from tests.support.stored import store_rows

pytestmark = pytest.mark.long
KILLS = 12
CALLERS = 4
LONGEST_LIFE = 60  # answers of the API
PATIENCE_SECONDS = 240  # a caller may be cut off many times in a row


def serve(environment: dict[str, str], log: Path) -> None:
    """What `python -m api` does, in a fork of a process that has everything imported."""
    os.environ.update(environment)
    with log.open("ab") as output:
        os.dup2(output.fileno(), sys.stdout.fileno())
        os.dup2(output.fileno(), sys.stderr.fileno())
    main()


@dataclass
class Api:
    """The API, killed and started again on the same port."""

    settings: Settings
    log: Path

    def __post_init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__])

    def start(self) -> None:
        environment = {
            "SPINDLE_DATA": str(self.settings.data),
            "SPINDLE_PORT": str(self.settings.api.port),
            "SPINDLE_REQUESTS_PER_MINUTE": "1000000",
        }
        if self.settings.database.url:
            environment["SPINDLE_DATABASE_URL"] = self.settings.database.url.get_secret_value()
        self.process = self._context.Process(target=serve, args=(environment, self.log))
        self.process.start()
        with httpx.Client(base_url=f"http://127.0.0.1:{self.settings.api.port}", timeout=10) as client:
            while not _ready(client):
                assert self.process.is_alive(), self.log.read_text()
                time.sleep(0.02)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.process.close()


def _ready(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").is_success
    except httpx.TransportError:
        return False


@dataclass(frozen=True)
class Acknowledged:
    """What a caller was told is there: a project, its completed execution, and the upload of its package."""

    project: str
    execution: str
    upload: str
    sha256: str


@dataclass
class Caller:
    """Makes projects, each with an execution from the first call to the last report, and uploads their packages."""

    settings: Settings
    stop: threading.Event
    answers: int = 0
    done: list[Acknowledged] = field(default_factory=list)

    def run(self) -> None:
        key = (self.settings.data / "admin-key").read_text().strip()
        base = f"http://127.0.0.1:{self.settings.api.port}/api/svc/api"
        with httpx.Client(base_url=base, headers={"X-API-Key": key}, timeout=60) as self.http:
            while not self.stop.is_set():
                self.done.append(self._once())

    def _once(self) -> Acknowledged:
        name = uuid4().hex
        project = self._made("/projects", name, {})
        agent = self._made("/agents", name, {"pipelineYaml": PIPELINE})
        job = self._made(f"/projects/id/{project}/jobs", name, {"agentId": agent})
        path = f"/projects/id/{project}/jobs/{job}"
        submitted = self._call("POST", f"{path}/execute", json={}, headers={"Idempotency-Key": name})
        execution = submitted.json()["executionId"]
        for report in ({"status": "RUNNING"}, self._completed(project, execution)):
            self._call("POST", f"{path}/completion", json={"executionId": execution, **report})
        return Acknowledged(project, execution, *self._uploaded(project))

    def _uploaded(self, project: str) -> tuple[str, str]:
        """The id that the project's package was taken in under, and the checksum that was answered for it."""
        package = self._call("GET", self._call("GET", f"/package/export/id/{project}").json()["url"]).content
        link = self._call("GET", "/package/upload").json()
        stored = self._call("PUT", link["url"], content=package).json()
        assert stored["sha256"] == hashlib.sha256(package).hexdigest()
        return stored["uploadId"], stored["sha256"]

    def _made(self, path: str, name: str, fields: dict[str, Any]) -> str:
        """The id of a new record, or of the one that a call made whose answer was cut off."""
        answer = self._call("POST", path, json={"name": name, **fields})
        if answer.is_success:
            return answer.json()["id"]
        return next(each["id"] for each in self._call("GET", path).json() if each["name"] == name)

    def _completed(self, project: str, execution: str) -> dict[str, Any]:
        database = open_database(self.settings)
        with database.read() as session:
            organization = session.get_one(Project, project).organization_id
        database.close()
        output = store_rows(self.settings, output_key(organization, execution, 1), ROWS)
        where = {"outputDatasetPath": output, "outputDatasetFormat": "parquet", "outputDatasetSchema": SCHEMA}
        return {"status": "COMPLETED", **where, "recordsOutput": ROWS.num_rows}

    def _call(self, method: str, path: str, **request: Any) -> httpx.Response:
        """As a client does: the same call again until it is answered."""
        answers: list[httpx.Response] = []

        def is_answered() -> bool:
            with suppress(httpx.TransportError):
                answers.append(self.http.request(method, path, **request))
                self.answers += 1
                if answers[-1].status_code != 429:
                    return True
                time.sleep(1)
            return False

        wait_until(is_answered, PATIENCE_SECONDS)
        assert answers[-1].is_success or answers[-1].status_code == 409, answers[-1].text
        return answers[-1]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.variant)])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    if request.param == "sqlite":
        yield Settings(data=tmp_path / "data", port=free_port())
        return
    with new_database(request.getfixturevalue("postgres")) as url:
        yield Settings(data=tmp_path / "data", port=free_port(), database_url=SecretStr(url))


def test_acknowledged_writes_survive_the_api(settings: Settings, tmp_path: Path) -> None:
    prepare(settings)
    chance, stop = random.Random(7), threading.Event()
    api, callers = Api(settings, tmp_path / "api.log"), [Caller(settings, stop) for _ in range(CALLERS)]
    api.start()
    with ThreadPoolExecutor(CALLERS) as pool:
        running = [pool.submit(caller.run) for caller in callers]
        try:
            for _ in range(KILLS):
                life = chance.randrange(LONGEST_LIFE)
                wait_until(partial(_has_lived, life + _answers(callers), callers, running), PATIENCE_SECONDS)
                api.kill()
                api.start()
        finally:
            stop.set()
        for each in running:
            each.result()
    api.kill()
    assert_kept(settings, [each for caller in callers for each in caller.done])


def _answers(callers: list[Caller]) -> int:
    return sum(caller.answers for caller in callers)


def _has_lived(answers: int, callers: list[Caller], running: list[Future[None]]) -> bool:
    """Whether so many calls were answered, or a caller has given up, which its result tells."""
    return _answers(callers) >= answers or any(future.done() for future in running)


def assert_kept(settings: Settings, done: list[Acknowledged]) -> None:
    assert len(done) >= KILLS
    database = open_database(settings)
    for each in done:
        assert_executed_once(database, each)
        assert_uploaded(settings, database, each)
    database.close()


def assert_executed_once(database: Database, told: Acknowledged) -> None:
    """The execution is there once, completed once, launched once, and holds no slot."""
    with database.read() as session:
        [(found, state)] = session.execute(
            select(Execution.id, Execution.state).where(Execution.project_id == told.project)
        )
        assert (found, state) == (told.execution, "COMPLETED")
        assert session.get_one(Project, told.project).active_executions == 0
        for table in (DatasetVersion, OutboxMessage):
            query = select(func.count()).where(table.execution_id == told.execution)
            assert session.scalar(query) == 1, table.__tablename__


def assert_uploaded(settings: Settings, database: Database, told: Acknowledged) -> None:
    """The package is known and lies whole in storage."""
    with database.read() as session:
        package = session.get_one(Package, told.upload)
    with open_storage(settings.storage).open(package_key(package.organization_id, told.sha256)) as content:
        assert package.digest == hashlib.sha256(content.read()).hexdigest() == told.sha256
