"""Several API processes on one port: limits hold over all of them, and none that dies stays away."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from core.definitions.identity.api_keys import create_key
from core.definitions.identity.organizations import create_organization
from core.infra.database import open_database
from core.infra.migrations import migrate
from core.infra.settings import Settings
from tests.support.api import within_a_minute
from tests.support.processes import command_line, descendants
from tests.support.service import PATIENCE_SECONDS, free_port, wait_until

LIMIT = 40


@dataclass(frozen=True)
class Workers:
    process: subprocess.Popen[bytes]
    url: str

    def pids(self) -> list[int]:
        """The processes that serve: forks, with the command line of the one that started them."""
        return [pid for pid in descendants(self.process.pid) if "api" in command_line(pid)]

    def status(self, key: str) -> int:
        """Each time over a connection of its own, so that any of the processes may answer."""
        try:
            headers = {"X-API-Key": key}
            return httpx.get(f"{self.url}/api/svc/api/projects", headers=headers, timeout=PATIENCE_SECONDS).status_code
        except httpx.TransportError:
            return 0

    def ready(self) -> bool:
        try:
            return len(self.pids()) == 2 and httpx.get(f"{self.url}/readyz").is_success
        except httpx.TransportError:
            return False


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("served") / "data"
    migrate(Settings(data=data))
    return data


@pytest.fixture(scope="module")
def served(data: Path) -> Iterator[Workers]:
    with serving(data) as workers:
        yield workers


@contextmanager
def serving(data: Path) -> Iterator[Workers]:
    port = free_port()
    told = {"DATA": str(data), "PORT": str(port), "API_WORKERS": "2", "REQUESTS_PER_MINUTE": str(LIMIT)}
    environment = os.environ | {f"SPINDLE_{name}": value for name, value in told.items()}
    log = data.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "api"], env=environment, stderr=output)
    workers = Workers(process, f"http://127.0.0.1:{port}")
    try:
        wait_until(lambda: workers.ready() or process.poll() is not None, 180)
        assert process.poll() is None, log.read_text()
        yield workers
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


@pytest.mark.long
@pytest.mark.parametrize("request_", [b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", b"nonsense\r\n\r\n"])
def test_invalid_http_gets_the_common_error_body(served: Workers, request_: bytes):
    with socket.create_connection(
        ("127.0.0.1", httpx.URL(served.url).port or 80), timeout=PATIENCE_SECONDS
    ) as connection:
        connection.sendall(request_)
        head, _, body = b"".join(iter(lambda: connection.recv(65_536), b"")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/json" in head
    error = json.loads(body)
    assert (error["code"], error["details"][0]["code"]) == (400, "unreadable-request")


@pytest.mark.long
def test_limits_are_exact_over_processes_and_none_that_dies_stays_away(served: Workers, data: Path):
    """The last test of this module: it ends the processes."""
    statuses = within_a_minute(lambda: of_many_requests(served, new_key(data)))
    assert sorted(statuses) == [200] * LIMIT + [429] * 20
    killed, kept = served.pids()
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: killed not in served.pids() and served.ready(), 180)
    family = served.pids()
    assert kept in family
    served.process.kill()  # and with the one that started them they all end
    served.process.wait()
    wait_until(lambda: not any(command_line(pid) for pid in family), PATIENCE_SECONDS)


def of_many_requests(workers: Workers, key: str) -> list[int]:
    with ThreadPoolExecutor(10) as pool:
        return list(pool.map(lambda _: workers.status(key), range(LIMIT + 20)))


def new_key(data: Path) -> str:
    database = open_database(Settings(data=data))
    with database.write() as session:
        _, key = create_key(session, create_organization(session, str(uuid4())).id, "test")
    database.close()
    return key
