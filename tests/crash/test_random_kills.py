"""Every process is killed with -9 at random moments of a load of executions and ticks; nothing is lost or doubled.

`SPINDLE_CRASH_SEED` repeats the choices of a round; `SPINDLE_CRASH_EXECUTIONS=30 SPINDLE_CRASH_TICKS=10
SPINDLE_CRASH_ROUNDS=3` is the long one, with three kills of each kind of process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random

import pyarrow.parquet as pq
import pytest
from sqlalchemy import func, select

from core.tables import DatasetVersion, Execution, Project, ScheduleTick, TickJob
from core.tables.states import TERMINAL
from tests.support import postgres
from tests.support.crashes import (
    OF_DRIVERS,
    PersistentClient,
    Victim,
    choose_seed,
    kill,
    list_victims,
    pick,
)
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Job, Service, wait_until
from tests.support.site import Site

pytestmark = [pytest.mark.variant, pytest.mark.timeout(1500), pytest.mark.folder]

EXECUTIONS = int(os.environ.get("SPINDLE_CRASH_EXECUTIONS", "6"))
TICKS = int(os.environ.get("SPINDLE_CRASH_TICKS", "2"))
ROUNDS = int(os.environ.get("SPINDLE_CRASH_ROUNDS", "1"))
JOBS = 3
KINDS = ("api", "daemon", "code server", "launcher", "driver", "worker", "database")
APPEARS_SECONDS = 180.0  # Spark's workers start last, and late on a busy machine
LONGEST_PAUSE = 2.0
LIFE_OF_WORKERS = 0.3  # seconds that they have for certain
END_SECONDS = 900
PIPELINE = """\
fetch: {{url: "{url}/"}}
pipeline:
  - {{stage: wgetJoin, args: ["li a"]}}
  - {{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}
"""
LINKS = [f"/{number}" for number in range(4)]


@dataclass
class Load:
    """What was asked for: executions over REST by their id, and one tick of each schedule by its project."""

    jobs: Sequence[Job]
    scheduled: Mapping[Job, datetime]
    executions: list[tuple[Job, str]] = field(default_factory=list[tuple[Job, str]])


def test_random_kills_lose_and_double_nothing(on_postgresql: tuple[Service, postgres.Cluster], web: Site) -> None:
    seed, (service, cluster) = choose_seed(), on_postgresql
    serve_pages(web)
    load = prepare(service, web)
    with ThreadPoolExecutor(1) as pool:
        submitting = pool.submit(submit, service, load, Random(f"{seed} executions"))
        harmed = Killer(service, cluster, Random(f"{seed} kills")).run(submitting)
        submitting.result()
    wait_for_ticks(service, load)
    wait_until(partial(have_ended, service), END_SECONDS, every=POLL_SECONDS)
    assert_ended_truly(service, load, harmed)
    wait_until(partial(have_no_slots, service), PATIENCE_SECONDS)
    wait_until(lambda: not [each for each in list_victims(service) if each.owner], PATIENCE_SECONDS)
    assert_runs_ended(service)


def serve_pages(site: Site) -> None:
    links = "".join(f"<li><a href='{link}'>{link}</a></li>" for link in LINKS)
    site.serve({"/": f"<h1>All</h1><ul>{links}</ul>", **{link: f"<h1>Page {link}</h1>" for link in LINKS}})
    site.delay = 0.5


def prepare(service: Service, site: Site) -> Load:
    """The jobs to execute, and a project for each schedule, whose only tick this year is due within two minutes."""
    first = service.make_job(PIPELINE.format(url=site.url))
    agent = service.get(first.path)["agentId"]
    body = {"agentId": agent, "maxRetries": 1, "retryBackoffSeconds": 1, "engine": "spark"}  # the first has none
    jobs = [
        first,
        *(
            Job(
                first.project_id,
                service.post(f"/projects/id/{first.project_id}/jobs", {"name": f"rows {n}", **body})["id"],
            )
            for n in range(1, JOBS)
        ),
    ]
    projects = [service.post("/projects", {"name": f"scheduled {number}"})["id"] for number in range(TICKS)]
    scheduled: dict[Job, datetime] = {}
    for number, project in enumerate(projects):
        job = Job(project, service.post(f"/projects/id/{project}/jobs", {"name": "rows", "agentId": agent})["id"])
        due = (datetime.now(UTC) + timedelta(seconds=80 + 60 * (number % 2))).replace(second=0, microsecond=0)
        body = {"cronSchedule": f"{due.minute} {due.hour} {due.day} {due.month} *", "timezone": "UTC", "enabled": True}
        PersistentClient(service).call("PUT", f"/projects/id/{project}/schedule", body)
        scheduled[job] = due
    return Load(jobs, scheduled)


def submit(service: Service, load: Load, chance: Random) -> None:
    client = PersistentClient(service)
    for number in range(EXECUTIONS):
        job = chance.choice(load.jobs)
        answer = client.call("POST", f"{job.path}/execute?queue=true", {}, Idempotency_Key=f"execution {number}")
        load.executions.append((job, answer["executionId"]))
        time.sleep(chance.uniform(0, LONGEST_PAUSE))


@dataclass
class Killer:
    """Kills one process of each kind per round, in a random order, each some time after there is one to kill."""

    service: Service
    cluster: postgres.Cluster
    chance: Random
    began: float = field(default_factory=time.monotonic)

    def run(self, submitting: Future[None]) -> set[str]:
        """Return the executions of whose drivers a process was killed."""
        harmed: set[str] = set()
        for _ in range(ROUNDS):
            for kind in self.chance.sample(KINDS, len(KINDS)):
                if submitting.done() and submitting.exception():
                    return harmed
                killed = self._kill_database() if kind == "database" else self._kill(kind, submitting)
                if killed is None:
                    self._say(f"no {kind} to kill")
                elif killed.kind in OF_DRIVERS and killed.owner:
                    harmed.add(killed.owner)
        return harmed

    def _kill(self, kind: str, submitting: Future[None]) -> Victim | None:
        until = time.monotonic() + APPEARS_SECONDS
        while time.monotonic() < until:
            if pick(self.chance, list_victims(self.service), kind):
                time.sleep(self.chance.uniform(0, LIFE_OF_WORKERS if kind == "worker" else LONGEST_PAUSE))
                victim = pick(self.chance, list_victims(self.service), kind)
                if victim is not None and kill(victim.pid):
                    self._say(f"killed {victim}")
                    return victim
            if submitting.done() and have_ended(self.service):
                return None
            time.sleep(0.1)
        return None

    def _kill_database(self) -> Victim:
        time.sleep(self.chance.uniform(0, LONGEST_PAUSE))
        self.cluster.kill()
        self._say("killed the database")
        time.sleep(self.chance.uniform(0, LONGEST_PAUSE))
        self.cluster.start_again()
        self._say("started the database")
        return Victim("database", 0)

    def _say(self, what: str) -> None:
        print(f"{time.monotonic() - self.began:6.1f} s  {what}", flush=True)


def wait_for_ticks(service: Service, load: Load) -> None:
    """Until each schedule has fired, with patience for the time that its processes take to come back."""
    for job, due in load.scheduled.items():
        left = (due - datetime.now(UTC)).total_seconds()
        wait_until(partial(list_ticks, service, job), max(left, 0) + PATIENCE_SECONDS)


def list_ticks(service: Service, job: Job) -> list[tuple[datetime, str, str | None]]:
    """Time, state and execution of each job of each tick of the job's project."""
    columns = (ScheduleTick.tick_at, ScheduleTick.state, TickJob.execution_id)
    query = select(*columns).outerjoin(TickJob, TickJob.tick_id == ScheduleTick.id)
    with service.database() as database, database.read() as session:
        rows = session.execute(query.where(TickJob.job_id == job.job_id, TickJob.state != "WAITING"))
        return [(tick_at, state, execution_id) for tick_at, state, execution_id in rows]


def have_ended(service: Service) -> bool:
    with service.database() as database, database.read() as session:
        running = select(func.count()).where(Execution.state.not_in(TERMINAL))
        return not session.scalar(running)


def assert_ended_truly(service: Service, load: Load, harmed: set[str]) -> None:
    """Each execution has one published version if it is completed, and none if not, which only a kill explains."""
    jobs = [job.job_id for job in (*load.jobs, *load.scheduled)]
    with service.database() as database, database.read() as session:
        executions = session.scalars(select(Execution).where(Execution.job_id.in_(jobs))).all()
        versions = session.scalars(select(DatasetVersion)).all()
    print(*(f"{e.id} {e.state} attempt {e.attempt} {e.error_message or ''}" for e in executions), sep="\n")
    ticks = {job: list_ticks(service, job) for job in load.scheduled}
    for job, due in load.scheduled.items():
        assert [(tick_at, state) for tick_at, state, _ in ticks[job]] == [(due, "FIRED")], (job, due, ticks[job])
    asked = {execution for _, execution in load.executions} | {each[2] for found in ticks.values() for each in found}
    assert (len(asked), asked) == (EXECUTIONS + TICKS, {execution.id for execution in executions})
    for execution in executions:
        published = [version for version in versions if version.execution_id == execution.id]
        assert len(published) == (execution.state == "COMPLETED"), execution.id
        assert execution.state in ("COMPLETED", "FAILED")
        assert execution.state == "COMPLETED" or execution.id in harmed, execution.error_message
        for version in published:
            assert count_rows(service, version) == len(LINKS), version.locations


def count_rows(service: Service, version: DatasetVersion) -> int:
    folders = [service.data / "storage" / location for location in version.locations]
    return sum(pq.read_table(folder).num_rows for folder in folders)


def have_no_slots(service: Service) -> bool:
    with service.database() as database, database.read() as session:
        return not session.scalar(select(func.sum(Project.active_executions)))


def assert_runs_ended(service: Service) -> None:
    query = "{ runsOrError(filter: {statuses: [QUEUED, NOT_STARTED, STARTING, STARTED, CANCELING]}) "
    query += "{ ... on Runs { results { runId status } } } }"
    wait_until(lambda: not service.graphql(query)["runsOrError"]["results"], PATIENCE_SECONDS, every=POLL_SECONDS)
