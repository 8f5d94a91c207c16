"""A Spindle service for benchmarks, its client, processes and statistics."""

from __future__ import annotations

import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

import httpx

CLONE = Path(__file__).parents[1]
SCRATCH = CLONE / ".bench"
READY_WITHIN_SECONDS = 180

Json = dict[str, Any]
Child = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True)
class Service:
    client: httpx.Client
    data: Path
    process: Child
    ui_url: str
    ready_after: float


@contextmanager
def run_spindle(environment: Mapping[str, str] | None = None, port: int | None = None) -> Generator[Service]:
    """Run `spindle up` with a temporary data folder; yield when the API, on `port`, and the Dagster UI answer."""
    with tempfile.TemporaryDirectory(prefix="spindle-bench-") as folder:
        port, ui_port = port or find_free_port(), find_free_port()
        arguments = ["-m", "cli.main", "up", "--data", folder, "--port", str(port), "--ui-port", str(ui_port)]
        began = time.monotonic()
        with run_process(arguments, environment or {}, Path(folder) / "up.log") as process:
            ui_url = f"http://127.0.0.1:{ui_port}"
            wait_for(f"http://127.0.0.1:{port}/readyz", process)
            wait_for(f"{ui_url}/server_info", process)
            ready_after = time.monotonic() - began
            with create_client(port, Path(folder)) as client:
                yield Service(client, Path(folder), process, ui_url, ready_after)


def create_client(port: int, data: Path) -> httpx.Client:
    headers = {"X-API-Key": (data / "admin-key").read_text().strip()}
    return httpx.Client(base_url=f"http://127.0.0.1:{port}/api/svc/api", headers=headers, timeout=60)


@contextmanager
def run_process(
    arguments: Sequence[str], environment: Mapping[str, str], log: Path, python: Path = Path(sys.executable)
) -> Generator[Child]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [python, *arguments],
            cwd=CLONE,
            env={**os.environ, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(url: str, process: Child) -> None:
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"the server under test ended with {process.returncode} before {url} answered")
        try:
            if httpx.get(url, timeout=5).is_success:
                return
        except httpx.TransportError:
            pass  # it does not listen yet
        time.sleep(0.05)
    raise SystemExit(f"{url} did not answer within {READY_WITHIN_SECONDS} s")


def create_job(client: httpx.Client, name: str, pipeline: str) -> str:
    """Create a project, category, agent and job of that name; return the job's path."""
    project = post(client, "/projects", {"name": name})["id"]
    category = post(client, "/categories", {"name": name})["id"]
    agent = post(client, "/agents", {"name": name, "categoryId": category, "pipelineYaml": pipeline})["id"]
    job = post(client, f"/projects/id/{project}/jobs", {"name": name, "agentId": agent})["id"]
    return f"/projects/id/{project}/jobs/{job}"


def post(client: httpx.Client, path: str, body: Json) -> Json:
    response = client.post(path, json=body)
    if response.is_error:
        raise SystemExit(f"POST {path} answered {response.status_code}: {response.text}")
    return response.json()


def wait_until_completed(client: httpx.Client, job: str, execution: str, poll_seconds: float = 0.05) -> Json:
    """Wait for an execution; return its final status. Many at once have to poll less often: requests are limited."""
    while True:
        status = client.get(f"{job}/executions/{execution}/status").raise_for_status().json()
        if status["status"] == "FAILED":
            raise SystemExit(f"the execution failed: {status['errorMessage']}")
        if status["status"] == "COMPLETED":
            return status
        time.sleep(poll_seconds)


def compute_percentiles(values: Sequence[float]) -> tuple[float, float]:
    cuts = quantiles(values, n=100, method="inclusive")
    return cuts[49], cuts[94]


def describe_machine() -> str:
    """Return a line about the machine; another load makes the figures worthless."""
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}, load {load:.1f}"
