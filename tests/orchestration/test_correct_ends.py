"""Runs that nobody executes end as their executions ended; those of attempts that go on stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import DagsterInstance, DagsterRun, DagsterRunStatus, job, op

from core.infra.instances import Membership
from core.lifecycle.executions.reports import cancel, claim, fail
from core.tables import Execution
from core.tables.states import State
from orchestration.client import DagsterClient
from orchestration.compute import create_compute
from orchestration.launcher import Launcher
from orchestration.run_drivers import Service
from orchestration.run_tags import ATTEMPT, EXECUTION
from orchestration.running_attempts import RunningAttempts
from orchestration.runs import RunHost
from tests.support.service import free_port
from tests.support.shop import Shop


@op
def nothing() -> None: ...


@job
def example() -> None:
    nothing()


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[DagsterInstance]:
    (tmp_path / "dagster").mkdir()
    with DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance:
        yield instance


def test_runs_that_nobody_executes_end_as_their_executions(shop: Shop, instance: DagsterInstance) -> None:
    service = Service(shop.settings, shop.database, create_compute(shop.settings), RunningAttempts(shop.database))
    launcher = Launcher(service, RunHost(service, instance), DagsterClient(free_port()), Membership(shop.settings))

    def submit() -> tuple[Execution, DagsterRun]:
        execution = shop.submit()
        tags = {EXECUTION: execution.id, ATTEMPT: "1"}
        run = instance.create_run_for_job(example, tags=tags, status=DagsterRunStatus.STARTED)
        assert claim(shop.database, execution.id, 1, run.run_id) is not None
        return execution, run

    completed, failed, cancelled, active = [submit() for _ in range(4)]
    instance.report_run_failed(completed[1])
    repeating = instance.create_run_for_job(example, tags=completed[1].tags, status=DagsterRunStatus.NOT_STARTED)
    with shop.database.write() as session:
        session.get_one(Execution, completed[0].id).state = State.COMPLETED
    fail(shop.database, failed[0].id, "It failed.", 1)
    cancel(shop.database, shop.organization_id, cancelled[0].id, "It was cancelled.", 1)
    launcher.correct_ends()
    runs = [run for _, run in (completed, failed, cancelled, active)]
    states = [instance.get_run_by_id(run.run_id) for run in (*runs, repeating)]
    assert [run and run.status for run in states] == [
        DagsterRunStatus.SUCCESS,
        DagsterRunStatus.FAILURE,
        DagsterRunStatus.CANCELED,
        DagsterRunStatus.STARTED,
        DagsterRunStatus.NOT_STARTED,
    ]
