"""Accepted executions per minute, compared with Prefect: `python -m bench.accept_peer [SECONDS]`.

`execute` without a launcher, and Prefect server's create-flow-run without background services. Both have one process,
their own database in the same PostgreSQL and the same load: first calls begin at a fixed rate, then ten clients call
without pauses.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bench.api import IDLE_SECONDS, RATE, convert_to_milliseconds, run_instance
from bench.contenders import install_contender
from bench.service import Json, describe_machine, find_free_port, run_process, wait_for
from tests.support.postgres import cluster, new_database

CLIENTS = 10
REFUSED = float("inf")  # an overloaded server answers 503
# the server of this version does not start on a later FastAPI
PREFECT = ("prefect==3.8.8", "fastapi==0.139.0")
WARM_UP_SECONDS, WARM_UP_PAUSE = 180, 1
QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}


@dataclass(frozen=True)
class Call:
    url: str
    body: Json
    headers: dict[str, str]


@contextmanager
def serve_spindle(database_url: str) -> Generator[Sequence[Call]]:
    """Serve Spindle; with `queue` a project accepts any number of executions, as Prefect does."""
    with run_instance(database_url, workers=1) as server:
        yield [
            Call(f"{server.url}{each.path}/jobs/{each.job_id}/execute?queue=true", {}, {"X-API-Key": each.key})
            for each in server.targets
        ]


@contextmanager
def serve_prefect(database_url: str) -> Generator[Sequence[Call]]:
    python, port = install_contender("prefect", *PREFECT), find_free_port()
    url = f"http://127.0.0.1:{port}/api"
    with tempfile.TemporaryDirectory(prefix="spindle-bench-") as folder:
        database = {"PREFECT_API_DATABASE_CONNECTION_URL": database_url.replace("://", "+asyncpg://", 1)}
        environment = {"PREFECT_HOME": folder, "PREFECT_API_URL": url, **database, **QUIET}
        arguments = ["-m", "prefect", "server", "start", "--no-services", "--no-ui", "--port", str(port)]
        with run_process(arguments, environment, Path(folder) / "server.log", python) as process:
            wait_for(f"{url}/health", process)
            flow = wait_for_answer(Call(f"{url}/flows/", {"name": "bench"}, {}))
            yield [Call(f"{url}/flow_runs/", {"flow_id": flow["id"], "state": {"type": "SCHEDULED"}}, {})]


def wait_for_answer(call: Call) -> Json:
    """Repeat the call until it succeeds: a server may refuse calls for some seconds after its health check succeeds."""
    deadline = time.monotonic() + WARM_UP_SECONDS
    while True:
        answer = httpx.post(call.url, json=call.body, headers=call.headers, timeout=60)
        if answer.is_success or time.monotonic() > deadline:
            return answer.raise_for_status().json()
        time.sleep(WARM_UP_PAUSE)


async def call_at_rate(calls: Sequence[Call], seconds: float) -> list[float]:
    async with _create_client() as client:
        began, running = time.monotonic(), list[asyncio.Task[float]]()
        for number in range(int(RATE * seconds)):
            await asyncio.sleep(max(0, began + number / RATE - time.monotonic()))
            running.append(asyncio.create_task(_measure_call(client, calls[number % len(calls)])))
        return list(await asyncio.gather(*running))


async def call_without_pause(calls: Sequence[Call], seconds: float) -> list[float]:
    durations: list[float] = []
    until = time.monotonic() + seconds

    async def call_repeatedly(number: int, client: httpx.AsyncClient) -> None:
        while time.monotonic() < until:
            durations.append(await _measure_call(client, calls[number % len(calls)]))
            number += CLIENTS

    async with _create_client() as client:
        await asyncio.gather(*(call_repeatedly(number, client) for number in range(CLIENTS)))
    return durations


def _create_client() -> httpx.AsyncClient:
    return httpx.AsyncClient(limits=httpx.Limits(max_connections=None, keepalive_expiry=IDLE_SECONDS), timeout=60)


async def _measure_call(client: httpx.AsyncClient, call: Call) -> float:
    began = time.perf_counter()
    answer = await client.post(call.url, json=call.body, headers=call.headers)
    return time.perf_counter() - began if answer.is_success else REFUSED


def report(name: str, calls: Sequence[Call], seconds: float) -> None:
    wait_for_answer(calls[0])
    asyncio.run(call_at_rate(calls, 2))
    loads: dict[str, Callable[[Sequence[Call], float], Coroutine[Any, Any, list[float]]]] = {
        f"{RATE}/s": call_at_rate,
        f"{CLIENTS} clients": call_without_pause,
    }
    for what, load in loads.items():
        began = time.monotonic()
        durations = asyncio.run(load(calls, seconds))
        minutes, answered = (time.monotonic() - began) / 60, [each for each in durations if each != REFUSED]
        p50, p95 = convert_to_milliseconds(answered)
        accepted, refused = len(answered) / minutes, len(durations) - len(answered)
        print(
            f"{name:<9}{what:<12}{accepted:7,.0f} a minute, p50 {p50:.1f}, p95 {p95:.1f} ms, {refused} refused",
            flush=True,
        )


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 15
    print(describe_machine())
    with cluster() as server:
        for name, started in {"Spindle": serve_spindle, "Prefect": serve_prefect}.items():
            with new_database(server.url) as url, started(url) as calls:
                report(name, calls, seconds)


if __name__ == "__main__":
    main()
