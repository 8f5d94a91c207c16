"""The API served over HTTP, and callers that make records and play the driver's part."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pyarrow as pa
import uvicorn
from fastapi import FastAPI
from sqlalchemy.orm import Session

from api.app import create_app
from cli.data_folder import prepare
from core.definitions.identity.api_keys import create_key
from core.definitions.identity.organizations import create_organization
from core.infra.database import open_database
from core.infra.settings import Settings
from core.infra.storage.protocol import output_key
from tests.support.answers import record_answer
from tests.support.service import PATIENCE_SECONDS
from tests.support.stored import store_rows
from tests.support.trainer import COMMAND, MODELS

T = TypeVar("T")
BASE = "/api/svc/api"
PIPELINE = """\
fetch: {url: "http://127.0.0.1/"}
pipeline:
  - {stage: extract, args: [{selector: h1, method: text, as: title}]}
"""
SCHEMA = '[{"name": "title", "type": "string"}, {"name": "price", "type": "double"}]'


@dataclass(frozen=True)
class Api:
    """One caller of a running service: a key of one organization."""

    client: httpx.Client
    settings: Settings
    organization_id: str
    key: str

    def call(self, method: str, path: str, **request: Any) -> httpx.Response:
        headers = {"X-API-Key": self.key} | request.pop("headers", {})
        return self.client.request(
            method, path if path.startswith(("/api", "http")) else BASE + path, headers=headers, **request
        )

    def get(self, path: str, **params: Any) -> Any:
        return answered(self.call("GET", path, params=params))

    def post(self, path: str, body: Any = None) -> Any:
        return answered(self.call("POST", path, json=body))

    def put(self, path: str, body: Any) -> Any:
        return answered(self.call("PUT", path, json=body))

    def project(self, name: str) -> str:
        return self.post("/projects", {"name": name})["id"]

    def job(self, name: str, *, pipeline: str = PIPELINE) -> Job:
        """A project, agent and job of this name, ready to be executed."""
        project, agent = self.project(name), self.post("/agents", {"name": name, "pipelineYaml": pipeline})["id"]
        job = self.post(f"/projects/id/{project}/jobs", {"name": name, "agentId": agent})["id"]
        return Job(self, project, job, agent)


@dataclass(frozen=True)
class Job:
    """A job that can be executed, and the compute side's part of it played by the test."""

    api: Api
    project_id: str
    id: str
    agent_id: str

    @property
    def path(self) -> str:
        return f"/projects/id/{self.project_id}/jobs/{self.id}"

    def execute(self, body: Any = None) -> str:
        return self.api.post(f"{self.path}/execute", body)["executionId"]

    def status(self, execution: str) -> Any:
        return self.api.get(f"{self.path}/executions/{execution}/status")

    def report(self, execution: str, status: str, **fields: Any) -> Any:
        body = {"executionId": execution, "status": status} | fields
        return self.api.post(f"{self.path}/completion", body)

    def complete(self, execution: str, rows: pa.Table, **more: Any) -> str:
        """Writes the rows where the driver would and reports COMPLETED; the dataset's id."""
        key = output_key(self.api.organization_id, execution, 1)
        output = store_rows(self.api.settings, key, rows)
        done = {"outputDatasetPath": output, "outputDatasetFormat": "parquet", "outputDatasetSchema": SCHEMA}
        self.report(execution, "COMPLETED", **done, recordsOutput=rows.num_rows, outputFileSizeBytes=1234, **more)
        return self.api.get(self.path)["outputDatasetId"]


ROWS = pa.table({"title": ["kettle", "mug"], "price": [19.5, None]})


def answered(response: httpx.Response) -> Any:
    assert response.is_success, f"{response.status_code} {response.text}"
    return response.json() if response.content else None


def read_code(response: httpx.Response) -> tuple[int, str]:
    """The status and the code of an error."""
    return response.status_code, response.json()["details"][0]["code"]


@contextmanager
def open_session(settings: Settings) -> Generator[Session]:
    """Change the database beside the service that has it."""
    with closing(open_database(settings)) as database, database.write() as session:
        yield session


@dataclass(frozen=True)
class Server:
    """A running uvicorn on a data folder of its own."""

    client: httpx.Client
    settings: Settings

    def caller(self, organization: str, *scopes: str) -> Api:
        """A caller with a new key, of a new organization or of the one with this id."""
        with open_session(self.settings) as session:
            owner = organization if len(organization) == 36 else create_organization(session, organization).id
            _, key = create_key(session, owner, "test", scopes or None)
        return Api(self.client, self.settings, owner, key)

    def administrator(self) -> Api:
        """The caller with the key that the first start has made."""
        key = (self.settings.data / "admin-key").read_text()
        answer = self.client.get(f"{BASE}/auth/organizations/me", headers={"X-API-Key": key})
        return Api(self.client, self.settings, answered(answer)["id"], key)


@contextmanager
def start_server(data: Path, **changes: Any) -> Generator[Server]:
    """Serve a new instance whose fetch guard allows loopback and whose rate limit is out of reach."""
    settings = Settings(
        data=data,
        fetch_allow_networks=("127.0.0.1/32",),
        requests_per_minute=1_000_000,
        trainer=COMMAND,
        trainer_models=MODELS,
        **changes,
    )
    prepare(settings)
    with (
        running(create_app(settings)) as url,
        httpx.Client(
            base_url=url, timeout=PATIENCE_SECONDS, verify=False, event_hooks={"response": [record_answer]}
        ) as client,
    ):
        yield Server(client, settings)


@contextmanager
def running(app: FastAPI) -> Generator[str]:
    """Serves the application on a free port of loopback; its address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def within_a_minute(act: Callable[[], T]) -> T:
    """What it gives once it began and ended in one clock minute: where it did not, it is done again."""
    while True:
        minute = time.time() // 60
        given = act()
        if time.time() // 60 == minute:
            return given
