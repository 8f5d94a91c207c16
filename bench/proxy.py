"""The Dagster UI through the console and at its own port, in turns: `python -m bench.proxy [ROUNDS [JOBS [RUNS]]]`.

Chromium opens three pages once, and its requests are repeated at both: GraphQL of each page, all files, and
subscriptions of a WebSocket that is open.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from urllib.parse import urlsplit

import httpx
from dagster import DagsterInstance, DagsterRunStatus, job
from playwright.sync_api import Request, sync_playwright
from websockets.sync.client import ClientConnection, connect

from bench.console import sign_in
from bench.service import Service, create_job, describe_machine, run_spindle
from pipelines.browser.model import BrowserOptions

ROUNDS, JOBS, RUNS = (int(value) for value in [*sys.argv[1:], *("5", "50", "500")[len(sys.argv) - 1 :]])
PAGES = {"Runs": "/runs", "Assets": "/assets", "Timeline": "/overview/activity/timeline"}
PREFIX = "/console/dagster"
PIPELINE = """\
pipeline:
  - {stage: wget, args: ["http://127.0.0.1:9/"]}
  - {stage: extract, args: [{selector: h1, method: text, as: title}]}
"""
CONNECTIONS = 6
QUIET_MS = 3000  # without a request, after which a page has loaded
SUBSCRIPTION = """\
subscription Logs($runId: ID!) { pipelineRunLogs(runId: $runId, cursor: null) { __typename } }"""


@dataclass(slots=True)
class RecordedRequests:
    """The requests of Chromium at Dagster's own port."""

    queries: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    files: list[str] = field(default_factory=list[str])


def main() -> None:
    print(describe_machine())
    with run_spindle() as service:
        for number in range(JOBS):
            create_job(service.client, f"job {number}", PIPELINE)
        run = store_runs(service)
        asked = record_pages(service.ui_url)
        compare(service, asked, run)


def store_runs(service: Service) -> str:
    """Store runs that have ended, and return the id of one."""

    @job
    def anything() -> None:
        pass

    os.environ["DAGSTER_HOME"] = str(service.data / "dagster")
    with DagsterInstance.get() as instance:
        runs = [
            instance.create_run_for_job(anything, status=DagsterRunStatus.SUCCESS, tags={"number": str(number)})
            for number in range(RUNS)
        ]
        instance.report_engine_event("It has ended.", runs[0])
        return runs[0].run_id


def record_pages(url: str) -> RecordedRequests:
    asked = RecordedRequests()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BrowserOptions().find_executable())
        for name, path in PAGES.items():
            bodies = asked.queries[name] = []

            def note(request: Request, bodies: list[str] = bodies) -> None:
                at = urlsplit(request.url).path
                if at == "/graphql" and request.post_data and request.post_data not in bodies:
                    bodies.append(request.post_data)
                elif at.startswith("/_next/") and at not in asked.files:
                    asked.files.append(at)

            page = browser.new_page()
            page.on("request", note)
            page.goto(url + path)
            page.wait_for_selector("nav, [role=tablist], table", timeout=120_000)
            count = -1
            while count != len(bodies):
                count = len(bodies)
                page.wait_for_timeout(QUIET_MS)
            page.close()
        browser.close()
    return asked


def compare(service: Service, asked: RecordedRequests, run: str) -> None:
    own = service.client.base_url.copy_with(path="/")
    origin = str(own).rstrip("/")
    cookie = sign_in(httpx.Client(base_url=own, timeout=60), service.client.headers["X-API-Key"])
    headers = {"Origin": origin, "Cookie": cookie, "Content-Type": "application/json"}
    with (
        httpx.Client(base_url=service.ui_url, headers=headers, timeout=300) as direct,
        httpx.Client(base_url=origin + PREFIX, headers=headers, timeout=300) as proxied,
        open_socket(f"{service.ui_url}/graphql", headers) as near,
        open_socket(f"{origin}{PREFIX}/graphql", headers) as far,
    ):
        clients = (direct, proxied)
        size = sum(len(direct.get(path).content) for path in asked.files) / 1e6
        what = f"{len(asked.files)} files of {size:.1f} MB"
        measure(what, [lambda c=c: fetch(c, asked.files) for c in clients])
        measure("page", [lambda c=c: fetch(c, ["/runs"]) for c in clients])
        measure("subscription", [lambda s=s: subscribe(s, run) for s in (near, far)])
        for name, bodies in asked.queries.items():
            what = f"{len(bodies)} queries of {name}, {sum(map(len, bodies)) / 1000:.0f} kB"
            measure(what, [lambda c=c, b=bodies: ask(c, b) for c in clients])


def measure(what: str, turns: list[Callable[[], None]]) -> None:
    """Print the medians of milliseconds of both, and the median of the ratios within a round."""
    for turn in turns:
        turn()
    seconds: list[list[float]] = []
    for number in range(ROUNDS):
        order = (0, 1) if number % 2 else (1, 0)
        took = [0.0, 0.0]
        for each in order:
            began = time.perf_counter()
            turns[each]()
            took[each] = time.perf_counter() - began
        seconds.append(took)
    direct, proxied = (1000 * median(each[at] for each in seconds) for at in (0, 1))
    ratio = median(far / near for near, far in seconds)
    print(f"{what}: {direct:.1f} ms direct, {proxied:.1f} ms proxied, {ratio:.2f} of direct", flush=True)


def ask(client: httpx.Client, bodies: list[str]) -> None:
    """Send queries as a browser does, over six connections."""

    def send(body: str) -> None:
        answer = client.post("/graphql", content=body).raise_for_status()
        assert "errors" not in answer.json(), answer.text[:300]

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(send, bodies))


def fetch(client: httpx.Client, paths: list[str]) -> None:
    for path in paths:
        client.get(path).raise_for_status()


@contextmanager
def open_socket(url: str, headers: dict[str, str]) -> Generator[ClientConnection]:
    address = url.replace("http://", "ws://")
    with connect(address, additional_headers=headers, subprotocols=["graphql-ws"], proxy=None) as socket:  # pyright: ignore[reportArgumentType]
        socket.send(json.dumps({"type": "connection_init"}))
        assert json.loads(socket.recv())["type"] == "connection_ack"
        yield socket


def subscribe(socket: ClientConnection, run: str) -> None:
    """Begin a subscription, and end it with its first answer."""
    number = str(time.perf_counter_ns())
    payload = {"query": SUBSCRIPTION, "variables": {"runId": run}}
    socket.send(json.dumps({"id": number, "type": "start", "payload": payload}))
    while True:
        answer = json.loads(socket.recv(30))
        if answer.get("id") == number and answer["type"] != "complete":
            assert answer["type"] == "data", answer
            break
    socket.send(json.dumps({"id": number, "type": "stop"}))


if __name__ == "__main__":
    main()
