"""The API under load: `python -m bench.api [SECONDS [REQUESTS]]`, on SQLite and on PostgreSQL.

The instance has two uvicorn workers and 100 keys of ten organizations with 300 projects. Four measurements: reads by id
from 100 connections (wrk), compared with a bare FastAPI route that answers JSON of the same shape from memory; the
memory of the workers during REQUESTS reads; 10,000 jobs listed page by page; `execute` at 25 per second without a
launcher, for SECONDS on an empty instance and four times as long with 100,000 stored executions. The defaults take five
minutes, the full measurement (`30 100000`) ten to twelve.

`python -m bench.api instances [SECONDS]` measures `execute` at 25 per second on PostgreSQL alone, by one instance with
two workers and by three with one each, in turns.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
from fastapi import FastAPI
from pydantic import SecretStr
from sqlalchemy import insert, update

from bench.service import Child, compute_percentiles, describe_machine, find_free_port, run_process, wait_for
from cli.data_folder import prepare
from core.definitions.agents.models import AgentCreate
from core.definitions.agents.repository import AgentRepository
from core.definitions.identity.api_keys import create_key
from core.definitions.identity.organizations import create_organization
from core.definitions.jobs.models import JobCreate
from core.definitions.jobs.repository import JobRepository
from core.definitions.projects.models import ProjectCreate
from core.definitions.projects.repository import ProjectRepository
from core.infra.database import Database, open_database
from core.infra.settings import Settings
from core.tables import Execution, Job, Project, new_id
from tests.support.postgres import cluster

ORGANIZATIONS, KEYS_EACH, PROJECTS_EACH = 10, 10, 30
CONNECTIONS, WORKERS = 100, 2
INSTANCES, ROUNDS = 3, 3
RATE, STORED_FACTOR = 25, 4
STORED_EXECUTIONS, LISTED_JOBS, PAGE = 100_000, 10_000, 1000
BATCH = 5000
MEMORY_SECONDS, LOAD_SECONDS, WARM_UP_SECONDS = 60, 5, 2
IDLE_SECONDS = 2  # the server closes a connection that is idle for five
PIPELINE = (
    "fetch: {url: 'http://127.0.0.1:9/'}\npipeline:\n  - {stage: extract, args: [{selector: h1, method: text}]}\n"
)
SCRIPT = """
local calls = {%s}
local i = 0
request = function()
  i = i %% #calls + 1
  return wrk.format("GET", calls[i][2], {["X-API-Key"] = calls[i][1]})
end
done = function(summary, latency)
  local errors = summary.errors
  local failed = errors.status + errors.read + errors.timeout + errors.connect
  local rate = summary.requests / summary.duration * 1e6
  local p50, p95 = latency:percentile(50) / 1000, latency:percentile(95) / 1000
  print(string.format("RESULT %%f %%f %%f %%d", rate, p50, p95, failed))
end
"""


def create_bare_app() -> FastAPI:
    """Return an application with one route, which answers a constant project."""
    app = FastAPI()
    at = datetime.now(UTC).isoformat()
    project: dict[str, Any] = {name: "x" * 36 for name in ("id", "name", "slug", "description")}
    project |= {"cronSchedule": None, "enabled": True, "parameters": {}, "jobIds": ["x" * 36]}

    @app.get("/readyz")
    def read() -> dict[str, Any]:
        return project | {"createdAt": at, "updatedAt": at}

    return app


@dataclass(frozen=True)
class Target:
    """A project with its job, and a key for them."""

    key: str
    project_id: str
    job_id: str

    @property
    def path(self) -> str:
        return f"/api/svc/api/projects/id/{self.project_id}"


@dataclass(frozen=True)
class Instance:
    settings: Settings
    database: Database
    url: str
    process: Child
    targets: Sequence[Target]
    other_urls: Sequence[str] = ()

    def measure_memory(self) -> float:
        """Return MiB (PSS) of all processes of the API."""
        process = psutil.Process(self.process.pid)
        return sum(each.memory_full_info().pss for each in (process, *process.children(recursive=True))) / 2**20


@contextmanager
def run_instance(database_url: str | None, workers: int = WORKERS, instances: int = 1) -> Generator[Instance]:
    with tempfile.TemporaryDirectory(prefix="spindle-bench-") as folder:
        settings = Settings(
            data=Path(folder), port=find_free_port(), database_url=SecretStr(database_url) if database_url else None
        )
        prepare(settings)
        environment = {
            "SPINDLE_DATA": folder,
            "SPINDLE_PORT": str(settings.api.port),
            "SPINDLE_API_WORKERS": str(workers),
            "SPINDLE_REQUESTS_PER_MINUTE": "1000000",
        } | ({"SPINDLE_DATABASE_URL": database_url} if database_url else {})
        database, url = open_database(settings), f"http://127.0.0.1:{settings.api.port}"
        targets = seed_projects(database)
        with run_process(["-m", "api"], environment, Path(folder) / "api.log") as process, ExitStack() as stack:
            wait_for(f"{url}/readyz", process)
            others = [stack.enter_context(run_other(settings, environment)) for _ in range(instances - 1)]
            yield Instance(settings, database, url, process, targets, others)
        database.close()


@contextmanager
def run_other(first: Settings, environment: Mapping[str, str]) -> Generator[str]:
    """Run the API of an instance that shares the database, files and key of the first one; yield its address."""
    with tempfile.TemporaryDirectory(prefix="spindle-bench-") as folder:
        port, key = find_free_port(), (first.data / "secret-key").read_text()
        (Path(folder) / "secret-key").write_text(key)
        own = {"SPINDLE_DATA": folder, "SPINDLE_PORT": str(port), "SPINDLE_STORAGE": str(first.data / "storage")}
        with run_process(["-m", "api"], {**environment, **own}, Path(folder) / "api.log") as process:
            wait_for(f"http://127.0.0.1:{port}/readyz", process)
            yield f"http://127.0.0.1:{port}"


def seed_projects(database: Database) -> list[Target]:
    targets: list[Target] = []
    for number in range(ORGANIZATIONS):
        with database.write() as session:
            owner = create_organization(session, f"bench {number}").id
            keys = [create_key(session, owner, "bench")[1] for _ in range(KEYS_EACH)]
            agent = AgentRepository(session, owner).create(AgentCreate(name="bench", pipeline_yaml=PIPELINE))
            for index in range(PROJECTS_EACH):
                project = ProjectRepository(session, owner).create(ProjectCreate(name=f"bench {index}"))
                job = JobRepository(session, owner).create(project.id, JobCreate(name="bench", agent_id=agent.id))
                targets.append(Target(keys[index % KEYS_EACH], project.id, job.id))
    return targets


def load(url: str, calls: Sequence[tuple[str, str]], seconds: float) -> tuple[float, float, float]:
    """Return requests per second, and p50 and p95 in milliseconds."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT % ",".join(f'{{"{key}","{path}"}}' for key, path in calls))
        script.flush()
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds:g}", "--timeout", "30", "-s", script.name, url]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rate, p50, p95, errors = map(float, re.findall(r"RESULT (\S+) (\S+) (\S+) (\S+)", printed)[0])
    if errors:
        raise SystemExit(f"{errors:g} requests were not answered with success:\n{printed}")
    return rate, p50, p95


def measure_bare_rate(seconds: float) -> float:
    with tempfile.TemporaryDirectory(prefix="spindle-bench-") as folder:
        port = find_free_port()
        command = [
            "-m",
            "uvicorn",
            "--factory",
            "bench.api:create_bare_app",
            "--workers",
            str(WORKERS),
            "--port",
            str(port),
        ]
        quiet = ["--log-level", "warning", "--no-access-log"]
        with run_process([*command, *quiet], {}, Path(folder) / "bare.log") as process:
            wait_for(f"http://127.0.0.1:{port}/readyz", process)
            return show("bare route", load(f"http://127.0.0.1:{port}", [("", "/readyz")], seconds))


def show(what: str, measured: tuple[float, float, float], bare: float | None = None) -> float:
    rate, p50, p95 = measured
    share = f", {rate / bare:.2f} of the bare route" if bare else ""
    print(f"{what:<28}{rate:8,.0f} requests/s, p50 {p50:.1f} ms, p95 {p95:.1f} ms{share}", flush=True)
    return rate


def measure_reads(spindle: Instance, seconds: float, requests: int, bare: float) -> None:
    """Measure two kinds of reads, and the memory of the workers before and after them."""
    projects = [(target.key, target.path) for target in spindle.targets]
    jobs = [(target.key, f"{target.path}/jobs/{target.job_id}") for target in spindle.targets]
    for calls in (projects, jobs):
        load(spindle.url, calls, WARM_UP_SECONDS)  # every key known, every statement compiled
    before, made = spindle.measure_memory(), 0.0
    for what, calls in {"project by id": projects, "job by id": jobs}.items():
        made += seconds * show(what, load(spindle.url, calls, seconds), bare)
    until = time.monotonic() + MEMORY_SECONDS
    while made < requests and time.monotonic() < until:
        made += LOAD_SECONDS * load(spindle.url, projects, LOAD_SECONDS)[0]
    print(f"memory over {made:,.0f} requests: {before:.0f} → {spindle.measure_memory():.0f} MiB", flush=True)


def measure_lists(spindle: Instance) -> None:
    target = spindle.targets[0]
    with spindle.database.write() as session:
        job = session.get_one(Job, target.job_id)
        columns = {column.key: getattr(job, column.key) for column in Job.__table__.columns}
        rows = [columns | {"id": new_id(), "slug": f"j{n}", "name": f"j{n}"} for n in range(LISTED_JOBS)]
        session.execute(insert(Job), rows)
    took: list[float] = []
    path: str | None = f"{target.path}/jobs?limit={PAGE}"
    with httpx.Client(base_url=spindle.url, headers={"X-API-Key": target.key}, timeout=60) as client:
        while path:
            began = time.perf_counter()
            answer = client.get(path).raise_for_status()
            took.append(time.perf_counter() - began)
            path = answer.links.get("next", {}).get("url")
    print(f"{LISTED_JOBS:,} jobs by pages of {PAGE}: first {1000 * took[0]:.0f} ms, tenth {1000 * took[9]:.0f} ms")


def measure_executes(spindle: Instance, what: str, seconds: int) -> None:
    durations = asyncio.run(call_execute(spindle, seconds))
    third = len(durations) // 3
    parts = {"all": durations, "first third": durations[:third], "last third": durations[-third:]}
    told = [
        f"{name} p50 {p50:.1f}, p95 {p95:.1f} ms"
        for name, part in parts.items()
        for p50, p95 in [convert_to_milliseconds(part)]
    ]
    print(f"execute, {RATE}/s for {seconds} s, {what}: {'; '.join(told)}", flush=True)
    with spindle.database.write() as session:
        session.execute(update(Project).values(active_executions=0))


def convert_to_milliseconds(durations: Sequence[float]) -> tuple[float, float]:
    p50, p95 = compute_percentiles(durations)
    return 1000 * p50, 1000 * p95


async def call_execute(spindle: Instance, seconds: int) -> list[float]:
    """Begin calls at a fixed rate; return their durations in seconds."""
    limits, urls = httpx.Limits(max_connections=None, keepalive_expiry=IDLE_SECONDS), (spindle.url, *spindle.other_urls)
    async with httpx.AsyncClient(limits=limits, timeout=60) as client:

        async def call_once(number: int) -> float:
            target = spindle.targets[number % len(spindle.targets)]
            began = time.perf_counter()
            path = f"{urls[number % len(urls)]}{target.path}/jobs/{target.job_id}/execute"
            (await client.post(path, json={}, headers={"X-API-Key": target.key})).raise_for_status()
            return time.perf_counter() - began

        began, calls = time.monotonic(), []
        for number in range(RATE * seconds):
            await asyncio.sleep(max(0, began + number / RATE - time.monotonic()))
            calls.append(asyncio.create_task(call_once(number)))
        return list(await asyncio.gather(*calls))


def store_executions(spindle: Instance, count: int = STORED_EXECUTIONS, jobs: Sequence[str] = ()) -> None:
    """Store completed copies of the newest execution under all jobs, or under some."""
    with spindle.database.read() as session:
        model = session.query(Execution).order_by(Execution.id.desc()).limit(1).one()
        columns = {column.key: getattr(model, column.key) for column in Execution.__table__.columns}
        homes = [
            (job.organization_id, job.project_id, job.id)
            for job in session.query(Job).limit(300)
            if not jobs or job.id in jobs
        ]
    names = ("organization_id", "project_id", "job_id")
    ended: Mapping[str, Any] = {"state": "COMPLETED", "task_id": None, "completed_at": datetime.now(UTC)}
    for start in range(0, count, BATCH):
        with spindle.database.write() as session:
            homed = (
                dict(zip(names, homes[n % len(homes)], strict=True)) for n in range(start, min(start + BATCH, count))
            )
            session.execute(insert(Execution), [{**columns, **ended, **home, "id": new_id()} for home in homed])


def measure(spindle: Instance, seconds: int, requests: int, bare: float) -> None:
    measure_reads(spindle, seconds, requests, bare)
    measure_executes(spindle, "empty", seconds)
    store_executions(spindle)
    measure_executes(spindle, f"{STORED_EXECUTIONS:,} stored", STORED_FACTOR * seconds)
    measure_lists(spindle)


def measure_instances(seconds: int) -> None:
    """Measure `execute` by one instance with two workers and by three with one each, in turns."""
    for _ in range(ROUNDS):
        for instances, workers in ((1, WORKERS), (INSTANCES, 1)):
            with cluster() as server, run_instance(server.url, workers, instances) as spindle:
                measure_executes(spindle, "warm-up", WARM_UP_SECONDS)
                measure_executes(spindle, f"instances: {instances}, workers of each: {workers}", seconds)


def main() -> None:
    if sys.argv[1:2] == ["instances"]:
        print(describe_machine())
        measure_instances(int(sys.argv[2]) if len(sys.argv) > 2 else 30)
        return
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    requests = int(sys.argv[2]) if len(sys.argv) > 2 else 25_000
    if subprocess.run(["which", "wrk"], capture_output=True, check=False).returncode:
        subprocess.run(["apt-get", "install", "-y", "-qq", "wrk"], check=True, env={**os.environ, "LC_ALL": "C"})
    print(describe_machine())
    bare = measure_bare_rate(seconds)
    for name in ("SQLite", "PostgreSQL"):
        print(f"\n{name}")
        with (
            cluster() if name == "PostgreSQL" else nullcontext() as server,
            run_instance(server and server.url) as spindle,
        ):
            measure(spindle, seconds, requests, bare)


if __name__ == "__main__":
    main()
