"""The launcher beside runs that end before they begin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, cast

import pytest
from dagster import DagsterRun, DagsterRunStatus

from core.definitions.cron_jobs.models import CronJobCreate
from core.definitions.cron_jobs.repository import CronJobRepository
from core.definitions.pools.models import PoolCreate
from core.definitions.pools.repository import PoolRepository
from core.infra.encryption import KeyRing
from core.infra.instances import Membership
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.lifecycle.executions.reports import claim, fail
from core.tables import CronJob, CronJobCall, Execution, now
from core.tables.states import State
from orchestration import launcher
from orchestration.acceptance import Attempt
from orchestration.client import DagsterClient
from orchestration.compute import create_compute
from orchestration.compute.local import LocalCompute
from orchestration.compute.protocol import Compute, DriverHandle, DriverStatus
from orchestration.run_drivers import Service
from orchestration.running_attempts import RunningAttempts
from orchestration.runs import RunHost
from tests.support.service import free_port
from tests.support.shop import Shop


class Runs:
    """Runs that have all failed at once, unless they are `alive`."""

    def __init__(self) -> None:
        self.threads = self
        self.launched: list[str] = []
        self.deleted: list[str] = []
        self.alive: set[str] = set()

    def __len__(self) -> int:
        return len(self.alive)

    def is_alive(self, run_id: str) -> bool:
        return run_id in self.alive

    def launch(self, run_id: str, attempt: Attempt) -> None:
        self.launched.append(run_id)

    def find_runs(self, run_ids: Iterable[str]) -> Mapping[str, DagsterRun]:
        ended = [DagsterRun("job", run_id, status=DagsterRunStatus.FAILURE) for run_id in self.launched]
        return {run.run_id: run for run in ended if run.run_id in set(run_ids)}

    def delete_run(self, run_id: str) -> None:
        self.deleted.append(run_id)


def make_launcher(shop: Shop, runs: Runs, compute: Compute | None = None, **changes: Any) -> launcher.Launcher:
    settings = shop.settings.replace(**changes)
    service = Service(settings, shop.database, compute or create_compute(settings), RunningAttempts(shop.database))
    return launcher.Launcher(service, cast(RunHost, runs), DagsterClient(free_port()), Membership(settings))


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.fixture
def own(shop: Shop, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> launcher.Launcher:
    for pause in ("RETRY_STEP", "CLAIM_TIMEOUT"):
        monkeypatch.setattr(launcher, pause, timedelta(0))
    return make_launcher(shop, runs)


def state(shop: Shop, execution: Execution) -> str:
    with shop.database.read() as session:
        return session.get_one(Execution, execution.id).state


def test_executions_wait_for_room_among_the_runs(shop: Shop, runs: Runs) -> None:
    own = make_launcher(shop, runs, dagster_runs=3)
    waiting = [shop.submit() for _ in range(2)]
    runs.alive = {"a", "b", "c"}
    own.launch_due()
    assert runs.launched == []
    runs.alive = {"a", "b"}
    own.launch_due()
    assert len(runs.launched) == 1
    runs.alive.clear()
    own.launch_due()
    assert len(runs.launched) == 2
    assert {state(shop, each) for each in waiting} == {State.PENDING}


def test_room_in_a_pool_is_given_after_the_commit_that_left_it(shop: Shop, own: launcher.Launcher) -> None:
    with shop.database.write() as session:
        PoolRepository(session, shop.organization_id).create(PoolCreate(name="host", limit=1))
    shop.change_job(pools=["host"])
    holder, waiting = shop.submit(), shop.submit(queue=True)
    for ended in (None, holder):
        if ended is not None:
            fail(shop.database, ended.id, "It made room.")
        own.admit_after_commits()
        assert state(shop, waiting) == (State.PENDING if ended else State.QUEUED)


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


def test_a_driver_whose_run_ended_with_the_service_is_followed_until_its_end(shop: Shop, runs: Runs) -> None:
    execution = shop.submit()
    runs.launched.append("ended")
    claim(shop.database, execution.id, 1, "ended")
    compute = RemoteCompute(shop.settings)
    own = make_launcher(shop, runs, compute)
    own.sync_run_states()
    assert (compute.followed, state(shop, execution)) == ([execution.id], State.PENDING)
    compute.running = False
    own.sync_run_states()
    assert state(shop, execution) == State.FAILED


@pytest.mark.parametrize(("is_restarted", "attempt"), [(True, 1), (True, 5), (False, 1)])
def test_an_execution_without_run_and_driver_begins_again_after_a_restart(
    shop: Shop, runs: Runs, *, is_restarted: bool, attempt: int
) -> None:
    execution = shop.submit()
    runs.launched.append("ended")
    with shop.database.write() as session:
        session.get_one(Execution, execution.id).attempt = attempt
    own = None if is_restarted else make_launcher(shop, runs)
    claim(shop.database, execution.id, attempt, "ended")
    (own or make_launcher(shop, runs)).sync_run_states()
    with shop.database.read() as session:
        found = session.get_one(Execution, execution.id)
        assert (found.state, found.attempt, found.retries, found.error_code) == (
            (State.PENDING, 2, 0, None)
            if (is_restarted, attempt) == (True, 1)
            else (State.FAILED, attempt, 0, "driver-lost")
        )


def test_an_execution_whose_runs_all_end_before_they_begin_fails(
    shop: Shop, runs: Runs, own: launcher.Launcher
) -> None:
    execution = shop.submit()
    for _ in range(launcher.MAX_RUNS + 1):
        own.launch_due()
        own.relaunch_unclaimed()
    assert len(runs.launched) == launcher.MAX_RUNS
    assert runs.deleted == runs.launched[:-1]
    with shop.database.read() as session:
        failed = session.get_one(Execution, execution.id)
        assert (failed.state, failed.error_message) == (
            State.FAILED,
            "Dagster could not start a run; see its log there.",
        )


@pytest.mark.long
def test_an_execution_that_a_run_has_submitted_gets_another_run_only_after_its_end(
    shop: Shop, runs: Runs, own: launcher.Launcher
) -> None:
    for _ in range(10):
        shop.submit()
    own.launch_due()
    waiting = shop.submit(run_id="of the UI", queue=True)
    assert (len(runs.launched), state(shop, waiting)) == (10, State.QUEUED)
    shop.free_one_slot()
    own.launch_due()
    assert (len(runs.launched), state(shop, waiting)) == (10, State.PENDING)
    runs.launched.clear()  # no run is left, and so none of the limit's
    own.relaunch_unclaimed()
    own.launch_due()
    assert len(runs.launched) == 10


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
