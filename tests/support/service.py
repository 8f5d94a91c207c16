"""A whole Spindle for tests: `spindle up` on free ports with a data folder of its own, and a client for it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import SystemRandom
from typing import Any, Self
from uuid import uuid4

import httpx
from pydantic import SecretStr

from core.infra.database import Database, open_database
from core.infra.settings import Settings
from tests.support.libraries import has_libraries
from tests.support.processes import command_line, descendants, list_processes_of

CLONE = Path(__file__).parents[2]
READY_SECONDS = 180
PATIENCE_SECONDS = 120  # with what takes a moment, on a machine that has no time
POLL_SECONDS = 0.5  # questions to a service take CPU from what it does
DAILY_CALLS = 1000  # of models, in the service that tests share
NO_TLS: dict[str, Any] = {"verify": False}  # each client would load all certificates: 24 ms of CPU
PORTS = range(12_000, 24_000)  # below those that systems give to connections and to whoever asks for any
Json = dict[str, Any]

GUARD_LIFTED = {"SPINDLE_FETCH_ALLOW_NETWORKS": "127.0.0.1/32"}
SMALL = {
    "SPINDLE_SPARK_MASTER": "local[1]",
    "SPINDLE_SPARK_DRIVER_MEMORY": "512m",
    "SPINDLE_SPARE_DRIVERS": "0",
    # or the first execution with a format would have a driver of its own
    **({"SPINDLE_SPARE_LIBRARIES": "delta,iceberg,avro"} if has_libraries() else {}),
}

RUNS = """query ($execution: String!) { runsOrError(filter: {tags: [{key: "spindle/execution", value: $execution}]}) {
  ... on Runs { results { runId status tags { key value } stepStats { stepKey status } } } } }"""
# a crawl of the links of a gated site
GATED_CRAWL = """\
fetch: {{url: "{url}"}}
pipeline:
  - {{stage: wgetJoin, args: ["ul li a"]}}
  - {{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}
"""


@dataclass(frozen=True)
class Job:
    project_id: str
    job_id: str

    @property
    def path(self) -> str:
        return f"/projects/id/{self.project_id}/jobs/{self.job_id}"


@dataclass
class Service:
    data: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=lambda: free_port())
    ui_port: int = field(default_factory=lambda: free_port())
    storage: str = field(default_factory=lambda: os.environ.get("SPINDLE_STORAGE", ""))

    def start(self) -> Self:
        """Return once it says that it is ready."""
        command = ["-m", "cli.main", "up", "--data", str(self.data), "--port", str(self.port)]
        self.log = self.data.with_suffix(".log")
        before = self._ready_count()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command, "--ui-port", str(self.ui_port)],
                cwd=CLONE,
                env={**os.environ, "SPINDLE_STORAGE": self.storage, **GUARD_LIFTED, **SMALL, **self.environment},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            wait_until(lambda: self._ready_count() > before or self.process.poll() is not None, READY_SECONDS)
            assert self.process.poll() is None, self.log.read_text()
        except AssertionError:
            self.stop()
            raise
        return self

    def stop(self) -> int:
        if opened := vars(self).pop("_http", None):
            opened.close()
        self.process.terminate()
        return self.process.wait(PATIENCE_SECONDS)

    @property
    def files(self) -> Path:
        """The folder that pipelines of a service of `serve_service` may read and write."""
        return self.data.parent / "files"

    @property
    def key(self) -> str:
        return (self.data / "admin-key").read_text().strip()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/svc/api"

    @property
    def ui_url(self) -> str:
        return f"http://127.0.0.1:{self.ui_port}"

    @contextmanager
    def client(self) -> Generator[httpx.Client]:
        """Yield the one client of this service, which stays open."""
        yield self._http

    @cached_property
    def _http(self) -> httpx.Client:
        headers = {"X-API-Key": self.key}
        return httpx.Client(base_url=self.base_url, headers=headers, timeout=PATIENCE_SECONDS, **NO_TLS)

    @contextmanager
    def database(self) -> Generator[Database]:
        url = self.environment.get("SPINDLE_DATABASE_URL")
        database = open_database(Settings(data=self.data, database_url=SecretStr(url) if url else None))
        try:
            yield database
        finally:
            database.close()

    def read_files(self) -> dict[str, bytes]:
        """Return the content of all files that the service has written, its output included, by their paths."""
        written: dict[str, bytes] = {}
        folders = [Path(folder, name) for folder, _, names in os.walk(self.data) for name in names]
        for path in (self.log, *folders):
            if path.is_file() and not path.is_symlink():
                with suppress(FileNotFoundError):  # SQLite removes its -shm and -wal with the last connection
                    written[str(path)] = path.read_bytes()
        return written

    def make_job(self, pipeline: str) -> Job:
        name = f"test {uuid4().hex[:8]}"
        project = self.post("/projects", {"name": name})["id"]
        agent = self.post("/agents", {"name": name, "pipelineYaml": pipeline})["id"]
        return Job(project, self.post(f"/projects/id/{project}/jobs", {"name": "rows", "agentId": agent})["id"])

    def execute(self, job: Job, body: Json | None = None) -> str:
        return self.post(f"{job.path}/execute", body or {})["executionId"]

    def status(self, job: Job, execution_id: str) -> Json:
        return self.get(f"{job.path}/executions/{execution_id}/status")

    def wait(self, job: Job, execution_id: str, *states: str, seconds: float = PATIENCE_SECONDS) -> Json:
        """The execution's status once it is in one of these states, or has ended."""
        wanted = {*states, "COMPLETED", "FAILED"}
        wait_until(lambda: self.status(job, execution_id)["status"] in wanted, seconds, every=POLL_SECONDS)
        return self.status(job, execution_id)

    def complete(self, job: Job, seconds: float = PATIENCE_SECONDS) -> str:
        """Execute the job, and return the execution once it has completed."""
        execution = self.execute(job)
        status = self.wait(job, execution, seconds=seconds)
        assert status["status"] == "COMPLETED", status
        return execution

    def post(self, path: str, body: Json) -> Json:
        response = self._http.post(path, json=body)
        assert response.is_success, f"POST {path}: {response.status_code} {response.text}"
        return response.json()

    def get(self, path: str) -> Any:
        response = answered(lambda: self._http.get(path))
        assert response.is_success, f"GET {path}: {response.status_code} {response.text}"
        return response.json()

    def graphql(self, query: str, **variables: Any) -> Any:
        body = {"query": query, "variables": variables}
        answer = answered(lambda: self._http.post(f"{self.ui_url}/graphql", json=body)).json()
        assert "errors" not in answer, answer
        return answer["data"]

    def runs(self, execution_id: str) -> list[Json]:
        return self.graphql(RUNS, execution=execution_id)["runsOrError"]["results"]

    def pid(self, module: str) -> int | None:
        """The oldest of this instance's processes that runs this module."""
        return next(iter(self.pids(module)), None)

    def pids(self, module: str) -> list[int]:
        return [pid for pid in descendants(self.process.pid) if module in command_line(pid)]

    def _ready_count(self) -> int:
        return self.log.read_text().count("Spindle is ready.") if self.log.exists() else 0


@contextmanager
def serve_service(folder: Path, environment: Mapping[str, str] | None = None) -> Generator[Service]:
    """Run a service in a folder, with quick heartbeats and a local folder for its pipelines; it leaves no process."""
    service = Service(folder / "data")
    service.files.mkdir()
    quick = {"SPINDLE_HEARTBEAT_SECONDS": "1", "SPINDLE_LOCAL_FOLDERS": str(service.files)}
    service.environment = {**quick, **(environment or {})}
    service.start()
    try:
        yield service
    finally:
        exit_code = service.stop()
    assert exit_code == 0
    wait_until(lambda: not list_processes_of(service.data), PATIENCE_SECONDS)


def answered(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """Asks again where nobody listens: what was killed is being started again."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return ask()
        except (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError):
            assert time.monotonic() < deadline, "it has not come back"
            time.sleep(0.1)


def free_port() -> int:
    """A port that nobody gets by chance before it is listened on, which may take a service half a minute."""
    while True:
        port = SystemRandom().choice(PORTS)  # tests seed the other one
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_until(condition: Any, seconds: float, every: float = 0.05) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(every)
