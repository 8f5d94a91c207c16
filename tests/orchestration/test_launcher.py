"""The launcher beside a Dagster that is away, and one whose runs end before they begin."""

from __future__ import annotations

import json
import os
import socketserver
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from core.definitions.cron_jobs.models import CronJobCreate
from core.definitions.cron_jobs.repository import CronJobRepository
from core.infra.database import open_database
from core.infra.encryption import KeyRing
from core.infra.migrations import migrate
from core.infra.pidfile import hold_pidfile
from core.infra.run_socket import get_run_pidfile, get_run_socket
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.lifecycle.executions.reports import claim
from core.tables import CronJob, CronJobCall, Execution, now
from core.tables.states import State
from orchestration import launcher
from orchestration.client import DagsterClient
from orchestration.compute import create_compute
from orchestration.compute.local import LocalCompute
from orchestration.compute.protocol import DriverHandle, DriverStatus
from tests.support.shop import Shop, make_shop


class Dagster(ThreadingHTTPServer):
    """Answers GraphQL, and as its run server; every run that is launched has failed at once."""

    def __init__(self, home: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        home.mkdir()
        self.run_server = socketserver.ThreadingUnixStreamServer(get_run_socket(home), _RunHandler)
        self.run_server.dagster = self  # pyright: ignore[reportAttributeAccessIssue]
        self.away = False
        self.runs: list[str] = []


class _RunHandler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        dagster: Dagster = self.server.dagster  # pyright: ignore[reportAttributeAccessIssue]
        request = json.loads(self.rfile.readline())
        if not dagster.away:
            dagster.runs.append(request["run_id"])
            self.wfile.write(b"ok")


class _Handler(BaseHTTPRequestHandler):
    server: Dagster

    def do_POST(self) -> None:
        self.send_response(200)
        self.end_headers()
        results = [{"runId": each, "status": "FAILURE"} for each in self.server.runs]
        self.wfile.write(json.dumps({"data": {"runsOrError": {"__typename": "Runs", "results": results}}}).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def dagster(shop: Shop) -> Iterator[Dagster]:
    with Dagster(shop.settings.data / "dagster") as server, server.run_server as run_server:
        for each in (server, run_server):
            threading.Thread(target=each.serve_forever).start()
        yield server
        for each in (server, run_server):
            each.shutdown()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    settings = Settings(data=tmp_path / "data")
    migrate(settings)
    with closing(open_database(settings)) as database:
        yield make_shop(settings, database)


@pytest.fixture
def own(shop: Shop, dagster: Dagster, monkeypatch: pytest.MonkeyPatch) -> launcher.Launcher:
    for pause in ("LEASE", "RETRY_STEP", "CLAIM_TIMEOUT"):
        monkeypatch.setattr(launcher, pause, timedelta(0))
    client = DagsterClient(dagster.server_port)
    return launcher.Launcher(shop.settings, shop.database, client, create_compute(shop.settings))


def state(shop: Shop, execution: Execution) -> str:
    with shop.database.read() as session:
        return session.get_one(Execution, execution.id).state


def test_waiting_for_dagster_takes_no_run_from_an_execution(
    shop: Shop, dagster: Dagster, own: launcher.Launcher
) -> None:
    execution = shop.submit()
    dagster.away = True
    for _ in range(20):
        own.launch_due()
    dagster.away = False
    for runs in range(1, launcher.MAX_RUNS):
        own.launch_due()
        own.relaunch_unclaimed()
        assert (len(dagster.runs), state(shop, execution)) == (runs, State.PENDING)


def test_executions_wait_while_the_service_has_no_memory_for_their_runs(shop: Shop, dagster: Dagster) -> None:
    settings = shop.settings.replace(dagster_runs=3)
    client, home = DagsterClient(dagster.server_port), settings.data / "dagster"
    own = launcher.Launcher(settings, shop.database, client, create_compute(settings))
    waiting = [shop.submit() for _ in range(2)]
    (home / "runs").mkdir()
    with ExitStack() as others:
        for name in ("a", "b", "c"):
            descriptor = others.enter_context(hold_pidfile(get_run_pidfile(home, name)))
            os.write(descriptor, b"1")
        own.launch_due()
        assert dagster.runs == []
    with hold_pidfile(get_run_pidfile(home, "a")), hold_pidfile(get_run_pidfile(home, "b")):
        own.launch_due()
        assert len(dagster.runs) == 1
    own.launch_due()
    assert len(dagster.runs) == 2
    assert {state(shop, each) for each in waiting} == {State.PENDING}


class RemoteCompute(LocalCompute):
    """A compute whose drivers go on without their run."""

    outlives_service = True
    running = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.followed: list[str] = []

    def observe(self, handle: DriverHandle) -> DriverStatus:
        return DriverStatus(self.running)

    def follow(self, handle: DriverHandle) -> None:
        self.followed.append(handle.execution_id)


def test_a_driver_whose_run_ended_with_the_service_is_followed_until_its_end(shop: Shop, dagster: Dagster) -> None:
    execution = shop.submit()
    dagster.runs.append("ended")
    claim(shop.database, execution.id, 1, "ended")
    compute = RemoteCompute(shop.settings)
    own = launcher.Launcher(shop.settings, shop.database, DagsterClient(dagster.server_port), compute)
    own.sync_run_states()
    assert (compute.followed, state(shop, execution)) == ([execution.id], State.PENDING)
    compute.running = False
    own.sync_run_states()
    assert state(shop, execution) == State.FAILED


def test_an_execution_whose_runs_all_end_before_they_begin_fails(
    shop: Shop, dagster: Dagster, own: launcher.Launcher
) -> None:
    execution = shop.submit()
    for _ in range(launcher.MAX_RUNS + 1):
        own.launch_due()
        own.relaunch_unclaimed()
    assert len(dagster.runs) == launcher.MAX_RUNS
    with shop.database.read() as session:
        failed = session.get_one(Execution, execution.id)
        assert (failed.state, failed.error_message) == (
            State.FAILED,
            "Dagster could not start a run; see its log there.",
        )


@pytest.mark.long
def test_an_execution_that_a_run_has_submitted_gets_another_run_only_after_its_end(
    shop: Shop, dagster: Dagster, own: launcher.Launcher
) -> None:
    for _ in range(10):
        shop.submit()
    own.launch_due()
    waiting = shop.submit(run_id="of the UI", queue=True)
    assert (len(dagster.runs), state(shop, waiting)) == (10, State.QUEUED)
    shop.free_one_slot()
    own.launch_due()
    assert (len(dagster.runs), state(shop, waiting)) == (10, State.PENDING)
    dagster.runs.clear()  # no run is left, and so none of the limit's
    own.relaunch_unclaimed()
    own.launch_due()
    assert len(dagster.runs) == 10


def test_the_launcher_fires_ticks_of_cron_jobs_that_dagster_has_not_fired(shop: Shop, own: launcher.Launcher) -> None:
    with shop.database.write() as session:
        cron_jobs = CronJobRepository(session, shop.organization_id)
        new = CronJobCreate(name="soon", schedule="@yearly", webhook_url="https://example.com/")
        cron_job = cron_jobs.create(shop.settings, KeyRing(load_service_key(shop.settings)), new)
        tick_at = now().replace(month=1, day=1, hour=0, minute=0, second=0, microsecond=0)
        cron_job.created_at = tick_at - timedelta(hours=1)
        cron_job.next_tick_at = tick_at
    own.sync_schedules()
    own.sync_schedules()
    with shop.database.read() as session:
        assert [call.tick_at for call in session.query(CronJobCall)] == [tick_at]
        assert session.get_one(CronJob, cron_job.id).next_tick_at == tick_at.replace(year=tick_at.year + 1)
