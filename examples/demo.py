"""The demo of bin/demo: start Spindle, crawl the shop in examples/shop over REST, and query its rows with SQL.

python examples/demo.py [--once] [--data DIR]
"""

from __future__ import annotations

import argparse
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

from cli.execute import Json, show_progress
from cli.up import LOG_NAME
from core.infra.settings import Settings

CLONE = Path(__file__).parents[1]
PIPELINE = CLONE / "examples" / "shop" / "pipeline.yaml"
START_SECONDS = 180
POLL_SECONDS = 0.25
SQL = """\
SELECT sku, title, price, currency, category, availability
FROM shop_demo.products WHERE title IS NOT NULL ORDER BY sku LIMIT 10"""
BROKEN = "SELECT listed_as, _error FROM shop_demo.products WHERE title IS NULL ORDER BY listed_as"
COUNT = "SELECT count(*) AS n, count(title) AS found FROM shop_demo.products"

Child = subprocess.Popen[bytes]


class DemoFailed(Exception):
    """A failure, as a sentence for the user."""


@dataclass(frozen=True, slots=True)
class Service:
    """A running Spindle and a client with its admin key."""

    client: httpx.Client
    settings: Settings


def run_demo(data: Path | None, once: bool) -> int:
    """Run the demo; return 0 only if it produced rows. Without `once`, keep Spindle running until Ctrl-C."""
    console = Console()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with (
            _serve_shop(console) as shop_url,
            _start_spindle(console, (data or choose_data_folder()).absolute()) as service,
        ):
            _run_job(console, service, shop_url)
            if not once:
                _wait_for_interrupt(console, service)
    except DemoFailed as failure:
        console.print(f"[red]{failure}[/]", soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def choose_data_folder() -> Path:
    """Return the folder in the clone, or for users who may not write there, one of their own."""
    return (CLONE if os.access(CLONE, os.W_OK) else Path.home()) / ".spindle-demo"


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _run_job(console: Console, service: Service, shop_url: str) -> None:
    began = time.monotonic()
    execution = _execute(service.client, shop_url)
    status = _follow(console, service.client, execution)
    if status["status"] != "COMPLETED":
        raise DemoFailed(f"The execution failed: {status['errorMessage']}")
    _show_rows(console, service.client)
    console.print(f"From execute to rows: [bold]{time.monotonic() - began:.1f} s[/]\n")
    _show_addresses(console, service.settings)


def _wait_for_interrupt(console: Console, service: Service) -> None:
    console.print("Spindle stays up until Ctrl-C.")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        console.print("Stopping ...")


@contextmanager
def _serve_shop(console: Console) -> Generator[str]:
    if not PIPELINE.exists():
        raise DemoFailed("The demo needs examples/shop, which only a clone of the repository contains.")
    port = _find_port(console, "the shop", 8900)
    with _run_child(["-m", "examples.shop.site", "--port", str(port)], {}, Path(os.devnull)):
        yield f"http://127.0.0.1:{port}/"


@contextmanager
def _start_spindle(console: Console, data: Path) -> Generator[Service]:
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DemoFailed(f"{data} cannot be the data folder: {error.strerror}. Choose another --data.") from None
    port, ui_port = _find_port(console, "the API", 8080), _find_port(console, "the Dagster UI", 3000)
    arguments = ["up", "--data", str(data), "--port", str(port), "--ui-port", str(ui_port)]
    # the shop is on loopback, which the fetch guard refuses by default
    environment = {"SPINDLE_FETCH_ALLOW_NETWORKS": "127.0.0.1/32"}
    settings = Settings(data=data, port=port, ui_port=ui_port)
    with _run_child(["-P", "-m", "cli.main", *arguments], environment, data / "demo.log") as child:
        with console.status("Starting Spindle ..."):
            _wait_until_ready(child, f"http://127.0.0.1:{port}", data / "demo.log")
        headers = {"X-API-Key": (data / "admin-key").read_text().strip()}
        with httpx.Client(base_url=settings.api.service_url, headers=headers, timeout=30) as client:
            yield Service(client, settings)


@contextmanager
def _run_child(arguments: list[str], environment: Mapping[str, str], log: Path) -> Generator[Child]:
    """Run a child process in a session of its own: Ctrl-C interrupts only the demo, which then ends the child."""
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
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise DemoFailed(f"Spindle ended while it started; {log} ends with:\n{_last_lines(log)}")
        if _is_ready(f"{url}/readyz"):
            return
        time.sleep(POLL_SECONDS)
    raise DemoFailed(f"Spindle was not ready after {START_SECONDS} s; {log} ends with:\n{_last_lines(log)}")


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.TransportError:
        return False


def _last_lines(log: Path, count: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-count:])


def _find_port(console: Console, what: str, preferred: int) -> int:
    with socket.socket() as probe:
        # bind as servers do: a port with connections in TIME_WAIT is free
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", preferred))
        except OSError:
            probe.bind(("127.0.0.1", 0))
            console.print(f"Port {preferred} is taken: {what} is on {probe.getsockname()[1]}.")
        return probe.getsockname()[1]


def _execute(client: httpx.Client, shop_url: str) -> str:
    """Create the missing records, submit an execution and return its path."""
    pipeline = PIPELINE.read_text(encoding="utf-8")
    project = _find_or_create(client, "/projects", "/projects", {"name": "Shop demo"})["id"]
    category = _find_or_create(client, "/categories", "/categories", {"name": "Demo", "visibility": "PRIVATE"})["id"]
    agent_body = {"name": "Shop crawler", "categoryId": category, "pipelineYaml": pipeline}
    agent = _find_or_create(client, f"/agents/{category}", "/agents", agent_body)["id"]
    _read_json(
        client.put(f"/agents/{category}/{agent}", json={"pipelineYaml": pipeline})
    )  # an earlier demo's may differ
    jobs = f"/projects/id/{project}/jobs"
    job = _find_or_create(client, jobs, jobs, {"name": "products", "agentId": agent})["id"]
    submitted = _read_json(client.post(f"{jobs}/{job}/execute", json={"parameters": {"SHOP_URL": shop_url}}))
    return f"{jobs}/{job}/executions/{submitted['executionId']}"


def _find_or_create(client: httpx.Client, listed_at: str, created_at: str, body: Json) -> Json:
    """Return the record with the body's name: an earlier demo's, or a new one."""
    found = [record for record in _read_json(client.get(listed_at)) if record["name"] == body["name"]]
    return found[0] if found else _read_json(client.post(created_at, json=body))


def _read_json(response: httpx.Response) -> Any:
    if response.is_error:
        raise DemoFailed(f"{response.request.method} {response.request.url} answered {response.text}")
    return response.json()


def _follow(console: Console, client: httpx.Client, execution: str) -> Json:
    def status() -> Json:
        return _read_json(client.get(f"{execution}/status"))

    return show_progress(console, "shop → rows", status, lambda: time.sleep(POLL_SECONDS))


def _show_rows(console: Console, client: httpx.Client) -> None:
    counts = _query(client, COUNT)[0]
    rows = _query(client, SQL)
    if not rows:
        raise DemoFailed("The execution completed without rows.")
    table = Table(*rows[0], title=f"{counts['n']} rows, {counts['found']} of them with a page", title_style="bold")
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    console.print("", Text(SQL, "dim"), table, "", sep="\n")
    if broken := _query(client, BROKEN):
        console.print(
            f"The shop has {len(broken)} broken links on purpose. Their rows stay, with the reason in _error:"
        )
        for row in broken:
            console.print(f"  {row['listed_as']}: {row['_error']}", markup=False, soft_wrap=True)
        console.print()


def _query(client: httpx.Client, sql: str) -> list[Json]:
    return _read_json(client.post("/datasets/query", json={"sql": sql}))["results"]


def _show_addresses(console: Console, settings: Settings) -> None:
    addresses = {
        "Console": f"{settings.api.origin}/",
        "API docs": f"{settings.api.url}/docs",
        "Dagster UI": f"http://127.0.0.1:{settings.dagster.ui_port}",
        "API key": settings.data / "admin-key",
        "Log": settings.data / LOG_NAME,
    }
    for name, address in addresses.items():
        console.print(f"{name:<11} {address}", soft_wrap=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="bin/demo", description="Start Spindle and crawl the example shop.")
    parser.add_argument("--data", type=Path, help="data folder (default: .spindle-demo in the clone, or at home)")
    parser.add_argument("--once", action="store_true", help="end after the job; exit code 0 only if it produced rows")
    arguments = parser.parse_args()
    sys.exit(run_demo(arguments.data, arguments.once))
