"""Lateness of schedules that are due at the same minute: `python -m bench.schedules [SCHEDULES…]` (default: 100 1000).

Each schedule has one job. Measured is the time from the tick to the execution's `createdAt`, with Dagster's daemon and
code server, and with the launcher's step that fires what Dagster has not fired after 15 s. No runs start: they would
compete for the cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import func, select

from bench.service import compute_percentiles, describe_machine, find_free_port, run_process
from core.definitions.agents.models import AgentCreate
from core.definitions.agents.repository import AgentRepository
from core.definitions.jobs.models import JobCreate
from core.definitions.jobs.repository import JobRepository
from core.definitions.projects.models import ProjectCreate
from core.definitions.projects.repository import ProjectRepository
from core.infra.database import Database, open_database
from core.infra.settings import Settings
from core.lifecycle.firing.schedules import fire_overdue
from core.lifecycle.firing.waiting import submit_waiting
from core.tables import Execution, Organization, ScheduleTick

PIPELINE = "fetch: {url: 'http://127.0.0.1:9/'}\npipeline:\n  - {stage: extract, args: [{selector: h1, as: title}]}\n"
START_SECONDS = 60  # of Dagster's processes, which load the definitions
SYNC_SECONDS = 2.0  # as in the launcher
PATIENCE_SECONDS = 300


def main() -> None:
    print(describe_machine())
    for number in map(int, sys.argv[1:] or ("100", "1000")):
        print(report(number, measure(number)))


def measure(number: int) -> list[float]:
    """Return the lateness of each execution in seconds."""
    with tempfile.TemporaryDirectory(prefix="spindle-bench-") as folder:
        data, port = Path(folder), find_free_port()
        home = data / "dagster"
        environment = {"SPINDLE_DATA": folder, "SPINDLE_UI_PORT": str(find_free_port()), "DAGSTER_HOME": str(home)}
        for command in (["cli.data_folder"], ["orchestration.instance", str(port)]):
            subprocess.run([sys.executable, "-m", *command], env={**os.environ, **environment}, check=True)
        due = datetime.now(UTC) + timedelta(seconds=START_SECONDS + 60 + number / 10)
        due = due.replace(second=0, microsecond=0)
        settings = Settings(data=data)
        with closing(open_database(settings)) as database, ExitStack() as stack:
            create_schedules(database, number, f"{due.minute} {due.hour} * * *")
            workspace = ["-w", str(home / "workspace.yaml"), "--log-level", "error"]
            served = ["-m", "orchestration.definitions", "-d", os.getcwd(), "--location-name", "spindle"]
            code = ["dagster", "api", "grpc", "--host", "127.0.0.1", "--port", str(port), *served]
            ready = ["orchestration.dagster_command", str(port)]
            daemon = [*ready, "dagster-daemon", "run", *workspace]
            for name, command in (("code", code), ("daemon", daemon)):
                stack.enter_context(run_process(["-m", *command], environment, data / f"{name}.log"))
            if datetime.now(UTC) > due - timedelta(seconds=START_SECONDS):
                raise SystemExit("The machine is too slow: the schedules were due before Dagster was ready.")
            return wait_for_executions(database, settings, number, due)


def create_schedules(database: Database, number: int, cron: str) -> None:
    with database.write() as session:
        owner = session.scalars(select(Organization.id)).one()
        agent = AgentRepository(session, owner).create(AgentCreate(name="bench", pipeline_yaml=PIPELINE))
        for each in range(number):
            project = ProjectRepository(session, owner).create(ProjectCreate(name=f"bench {each}", cron_schedule=cron))
            JobRepository(session, owner).create(project.id, JobCreate(name="job", agent_id=agent.id))


def wait_for_executions(database: Database, settings: Settings, number: int, due: datetime) -> list[float]:
    while datetime.now(UTC) < due + timedelta(seconds=PATIENCE_SECONDS):
        time.sleep(SYNC_SECONDS)
        fire_overdue(database, settings, datetime.now(UTC))
        submit_waiting(database, settings)
        with database.read() as session:
            if session.scalar(select(func.count()).select_from(Execution)) == number:
                break
    with database.read() as session:
        created = session.scalars(select(Execution.created_at)).all()
        ticks = session.scalar(select(func.count()).select_from(ScheduleTick))
    if (len(created), ticks) != (number, number):
        raise SystemExit(f"{len(created)} executions and {ticks} ticks of {number} schedules")
    return [(at - due).total_seconds() for at in created]


def report(number: int, lateness: list[float]) -> str:
    p50, p95 = compute_percentiles(lateness)
    return f"{number} schedules due at once: p50 {p50:.1f} s, p95 {p95:.1f} s, largest {max(lateness):.1f} s"


if __name__ == "__main__":
    main()
