"""`spindle demo`: the main job from nothing to rows, over REST alone, against the shop in examples/."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.follow import Json, follow
from core.infra.settings import Settings

CLONE = Path(__file__).parents[1]
PIPELINE = CLONE / "examples" / "shop" / "pipeline.yaml"
READY_WITHIN_SECONDS = 180
POLL_SECONDS = 0.25
SQL = """\
SELECT sku, title, price, currency, category, availability
FROM shop_demo.products WHERE title IS NOT NULL ORDER BY sku LIMIT 10"""
COUNT = "SELECT count(*) AS n, count(title) AS found FROM shop_demo.products"

Child = subprocess.Popen[bytes]


class DemoFailed(Exception):
    """What went wrong, as a sentence for the person at the terminal."""


@dataclass(frozen=True, slots=True)
class Service:
    """A started Spindle and a client that carries its admin key."""

    client: httpx.Client
    settings: Settings


def demo(data: Path | None, once: bool) -> int:
    """Runs the demo; returns the exit code, 0 only if rows came. Without `once` it stays until Ctrl-C."""
    console = Console()
    signal.signal(signal.SIGTERM, _end_as_by_ctrl_c)
    try:
        with _shop(console) as shop_url, _spindle(console, data or CLONE / ".spindle-demo") as service:
            _main_job(console, service, shop_url)
            if not once:
                _stay(console, service)
    except DemoFailed as failure:
        console.print(f"[red]{failure}[/]")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _end_as_by_ctrl_c(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _main_job(console: Console, service: Service, shop_url: str) -> None:
    began = time.monotonic()
    execution = _execute(service.client, shop_url)
    status = _follow(console, service.client, execution)
    if status["status"] != "COMPLETED":
        raise DemoFailed(f"The execution failed: {status['errorMessage']}")
    _show_rows(console, service.client)
    console.print(f"From execute to rows: [bold]{time.monotonic() - began:.1f} s[/]\n")
    _show_addresses(console, service.settings)


def _stay(console: Console, service: Service) -> None:
    console.print("Spindle stays up until Ctrl-C.")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        console.print("Stopping ...")


@contextmanager
def _shop(console: Console) -> Generator[str]:
    if not PIPELINE.exists():
        raise DemoFailed("The demo needs its shop in examples/, which only a clone of the repository has.")
    port = _free_port(console, "the shop", 8900)
    with _child(["-m", "examples.shop.site", "--port", str(port)], {}, Path(os.devnull)):
        yield f"http://127.0.0.1:{port}/"


@contextmanager
def _spindle(console: Console, data: Path) -> Generator[Service]:
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DemoFailed(f"{data} cannot be the data folder: {error.strerror}.") from None
    port, ui_port = _free_port(console, "the API", 8080), _free_port(console, "the Dagster UI", 3000)
    arguments = ["up", "--data", str(data), "--port", str(port), "--ui-port", str(ui_port)]
    # The shop is served on loopback, which the fetch guard refuses otherwise.
    environment = {"SPINDLE_FETCH_ALLOW_NETWORKS": "127.0.0.1/32"}
    settings = Settings(data=data, port=port, ui_port=ui_port)
    with _child(["-P", "-m", "cli.main", *arguments], environment, data / "demo.log") as child:
        with console.status("Starting Spindle ..."):
            _wait_until_ready(child, f"http://127.0.0.1:{port}", data / "demo.log")
        headers = {"X-API-Key": (data / "admin-key").read_text().strip()}
        with httpx.Client(base_url=settings.service_url, headers=headers, timeout=30) as client:
            yield Service(client, settings)


@contextmanager
def _child(arguments: list[str], environment: Mapping[str, str], log: Path) -> Generator[Child]:
    """A child in a session of its own, so that Ctrl-C reaches us first and we end it."""
    with log.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=CLONE,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield child
    finally:
        child.terminate()
        _wait_for_end(child)


def _wait_for_end(child: Child) -> None:
    try:
        child.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _wait_until_ready(child: Child, url: str, log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise DemoFailed(f"Spindle ended while it started; {log} ends with:\n{_last_lines(log)}")
        if _answers(f"{url}/readyz"):
            return
        time.sleep(POLL_SECONDS)
    raise DemoFailed(f"Spindle was not ready after {READY_WITHIN_SECONDS} s; {log} ends with:\n{_last_lines(log)}")


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.TransportError:
        return False


def _last_lines(log: Path, count: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-count:])


def _free_port(console: Console, what: str, preferred: int) -> int:
    with socket.socket() as probe:
        # As servers bind: a port that only waits for its old connections to end is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", preferred))
        except OSError:
            probe.bind(("127.0.0.1", 0))
            console.print(f"Port {preferred} is taken: {what} is on {probe.getsockname()[1]}.")
        return probe.getsockname()[1]


def _execute(client: httpx.Client, shop_url: str) -> str:
    """Makes what is missing, submits an execution, returns the path of that execution."""
    pipeline = PIPELINE.read_text(encoding="utf-8")
    project = _ensure(client, "/projects", "/projects", {"name": "Shop demo"})["id"]
    category = _ensure(client, "/categories", "/categories", {"name": "Demo", "visibility": "PRIVATE"})["id"]
    agent_body = {"name": "Shop crawler", "categoryId": category, "pipelineYaml": pipeline}
    agent = _ensure(client, f"/agents/{category}", "/agents", agent_body)["id"]
    _json(client.put(f"/agents/{category}/{agent}", json={"pipelineYaml": pipeline}))  # an older demo's may differ
    jobs = f"/projects/id/{project}/jobs"
    job = _ensure(client, jobs, jobs, {"name": "products", "agentId": agent})["id"]
    submitted = _json(client.post(f"{jobs}/{job}/execute", json={"parameters": {"SHOP_URL": shop_url}}))
    return f"{jobs}/{job}/executions/{submitted['executionId']}"


def _ensure(client: httpx.Client, listed_at: str, created_at: str, body: Json) -> Json:
    """The record of that name, from an earlier demo on the same data or new."""
    found = [record for record in _json(client.get(listed_at)) if record["name"] == body["name"]]
    return found[0] if found else _json(client.post(created_at, json=body))


def _json(response: httpx.Response) -> Any:
    if response.is_error:
        raise DemoFailed(f"{response.request.method} {response.request.url} answered {response.text}")
    return response.json()


def _follow(console: Console, client: httpx.Client, execution: str) -> Json:
    def status() -> Json:
        return _json(client.get(f"{execution}/status"))

    return follow(console, "shop → rows", status, lambda: time.sleep(POLL_SECONDS))


def _show_rows(console: Console, client: httpx.Client) -> None:
    counts = _query(client, COUNT)[0]
    rows = _query(client, SQL)
    if not rows:
        raise DemoFailed("The execution completed without rows.")
    table = Table(*rows[0], title=f"{counts['n']} rows, {counts['found']} of them with a page", title_style="bold")
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    console.print("", Text(SQL, "dim"), table, "", sep="\n")


def _query(client: httpx.Client, sql: str) -> list[Json]:
    return _json(client.post("/datasets/query", json={"sql": sql}))["results"]


def _show_addresses(console: Console, settings: Settings) -> None:
    addresses = {
        "API docs": f"{settings.api_url}/docs",
        "Dagster UI": f"http://127.0.0.1:{settings.ui_port}",
        "API key": settings.data / "admin-key",
        "Log": settings.data / "demo.log",
    }
    for name, address in addresses.items():
        console.print(f"{name:<11} {address}", soft_wrap=True)
