"""What becomes of a run when its execution goes its own way; the compute side is played by the test."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    DagsterExecutionInterruptedError,
    DagsterInstance,
    ExecuteInProcessResult,
    ResourceDefinition,
)
from pydantic import SecretStr

from core.definitions.agents import service as agents
from core.definitions.agents.models import AgentUpdate
from core.infra.database import Database, open_database
from core.infra.storage.protocol import output_key
from core.lifecycle.executions.reports import cancel, claim, fail, record_driver
from core.lifecycle.outlines.outlines import OutlineLoader
from core.tables import Execution
from core.tables.executions import ExecutionDriver
from orchestration import driver_session
from orchestration.acceptance import Attempt
from orchestration.assets import build_definitions, build_job_asset, get_graph_name
from orchestration.compute.protocol import DriverHandle, DriverSource, DriverStatus, Launch, PodType, Wait
from orchestration.driver_messages import DriverMessages
from orchestration.run_drivers import RunDrivers, Service
from orchestration.running_attempts import RunningAttempts
from pipelines.contract.request import RunRequest
from tests.support.shop import PIPELINE, Shop
from tests.support.wheels import write_library

Message = Mapping[str, Any]
RUN_ID = "0b8f1f3e-5a5e-4ba9-9f0a-6d9ad7d4a0b1"
READER = "pipeline: [{stage: load_parquet, args: ['spindle://shop/books']}]\n"


class PlayedCompute:
    """A compute whose driver sends the messages that the test makes, and runs until it is cancelled."""

    outlives_service = False

    def __init__(self, folder: Path, act: Callable[[RunRequest], list[Message]]) -> None:
        self._messages = folder / "messages.jsonl"
        self._act = act
        self._running: set[DriverHandle] = set()
        self.cancelled: list[DriverHandle] = []

    def launch(
        self,
        spec: RunRequest,
        secrets: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
        wait: Wait | None = None,
    ) -> Launch | None:
        handle = DriverHandle(spec.organization_id, spec.execution_id, spec.attempt)
        self._running.add(handle)
        self.send(self._act(spec))
        return Launch(handle, DriverSource.NEW, handle.name)

    def send(self, messages: Sequence[Message]) -> None:
        sent = [("report_custom_message", {"payload": message}) for message in messages]
        lines = [("opened", {"extras": {}}), *sent, ("closed", {})] if sent else []
        with self._messages.open("w") as file:
            file.write("WARNING: this is no message\n[1]\n{}\n\n" if sent else "")
            for method, params in lines:
                file.write(json.dumps({"__dagster_pipes_version": "0.1", "method": method, "params": params}) + "\n")

    def observe(self, handle: DriverHandle) -> DriverStatus:
        return DriverStatus(running=handle in self._running)

    def follow(self, handle: DriverHandle) -> None:
        pass

    def cancel(self, handle: DriverHandle) -> None:
        if handle in self._running:
            self._running.remove(handle)
            self.cancelled.append(handle)

    def open_messages(self, handle: DriverHandle) -> DriverMessages:
        return DriverMessages(self._messages)

    def read_logs(self, handle: DriverHandle, pod_type: PodType = "driver", tail: int = 100) -> Sequence[str]:
        return []

    def read_log_part(self, handle: DriverHandle, offset: int, size: int) -> bytes:
        return b""

    def list(self) -> Sequence[DriverHandle]:
        return list(self._running)


class BusyCompute(PlayedCompute):
    """A compute whose drivers are all busy until the run does not wait any more."""

    def launch(
        self,
        spec: RunRequest,
        secrets: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
        wait: Wait | None = None,
    ) -> Launch | None:
        assert wait is not None
        self._act(spec)
        while wait(0.01):
            continue
        return None


class StoppedCompute(PlayedCompute):
    """A compute whose driver works while the service is stopped: SIGTERM interrupts the run's first look at it."""

    is_stopped = False

    def observe(self, handle: DriverHandle) -> DriverStatus:
        if not self.is_stopped:
            self.is_stopped = True
            raise DagsterExecutionInterruptedError
        return super().observe(handle)


def run(shop: Shop, execution: Execution, compute: PlayedCompute) -> ExecuteInProcessResult:
    return run_jobs(shop, [execution.job_id], compute, Attempt(execution.id, execution.attempt))


def run_jobs(
    shop: Shop, jobs: Sequence[str], compute: PlayedCompute, attempt: Attempt | None = None
) -> ExecuteInProcessResult:
    """Materialize the assets of jobs in one run; without an attempt, as a user of Dagster does."""
    database: Database = open_database(shop.settings)
    with database.read() as session:
        outlines = OutlineLoader().load(session, jobs)
    named = {get_graph_name(outline.key): outline for outline in outlines}
    drivers = RunDrivers(
        Service(shop.settings, database, compute, RunningAttempts(database)), named, threading.Event(), attempt
    )
    definitions = build_definitions([*map(build_job_asset, outlines)], ResourceDefinition.hardcoded_resource(drivers))
    folder = shop.settings.data / "dagster"
    folder.mkdir(exist_ok=True)
    try:
        return definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=DagsterInstance.local_temp(str(folder), {"telemetry": {"enabled": False}}),
            raise_on_error=False,
            run_id=RUN_ID,
        )
    finally:
        drivers.close()
        database.close()


@pytest.mark.long
def test_a_report_that_is_refused_fails_the_execution_and_ends_the_driver(shop: Shop, tmp_path: Path) -> None:
    execution = shop.submit()

    def reports_nonsense(spec: RunRequest) -> list[Message]:
        key = output_key(shop.organization_id, spec.execution_id, spec.attempt)
        shop.storage.put(f"{key}/part-0.parquet", BytesIO())
        report = {
            "executionId": spec.execution_id,
            "status": "COMPLETED",
            "outputDatasetPath": spec.output.path,
            "outputDatasetSchema": "nonsense",
            "additionalMetrics": {"attempt": spec.attempt},
        }
        return [{"type": "finished", "state": "COMPLETED", "message": "", "payload": report}]

    compute = PlayedCompute(tmp_path, reports_nonsense)
    result = run(shop, execution, compute)
    assert not result.success
    failed = shop.reload(execution)
    assert failed.state == "FAILED"
    assert failed.driver == ExecutionDriver(compute.cancelled[0].name, "new", 0.0)
    assert "could not be recorded: 'outputDatasetSchema' is not a JSON list" in (failed.error_message or "")
    assert compute.cancelled == [DriverHandle(shop.organization_id, execution.id, 1)]
    assert shop.active() == 0


@pytest.mark.long
@pytest.mark.parametrize("reports", [False, True])
def test_a_cancelled_execution_cancels_its_run(shop: Shop, tmp_path: Path, *, reports: bool) -> None:
    execution = shop.submit()

    def cancelled_meanwhile(spec: RunRequest) -> list[Message]:
        cancel(shop.database, shop.organization_id, execution.id, "Not like this.")
        report = {"executionId": spec.execution_id, "status": "FAILED", "additionalMetrics": {"attempt": 1}}
        return [{"type": "finished", "state": "FAILED", "message": "", "payload": report}] if reports else []

    result = run(shop, execution, PlayedCompute(tmp_path, cancelled_meanwhile))
    assert "PIPELINE_CANCELED" in [event.event_type_value for event in result.all_events]
    assert shop.active() == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("pipeline", "end"),
    [(READER, "PIPELINE_CANCELED"), pytest.param(PIPELINE, "PIPELINE_FAILURE", marks=pytest.mark.long)],
)
def test_a_cancelled_execution_cancels_a_run_in_which_nothing_else_goes_on(
    shop: Shop, tmp_path: Path, pipeline: str, end: str
) -> None:
    jobs = [shop.job_id, shop.add_job("Later", pipeline).job_id]

    launched: list[str] = []

    def cancel_the_first(spec: RunRequest) -> list[Message]:
        launched.append(spec.execution_id)
        if len(launched) == 1:
            cancel(shop.database, shop.organization_id, spec.execution_id, "Not like this.")
            return []
        report = {"executionId": spec.execution_id, "status": "FAILED", "additionalMetrics": {"attempt": 1}}
        return [{"type": "finished", "state": "FAILED", "message": "", "payload": report}]

    result = run_jobs(shop, jobs, PlayedCompute(tmp_path, cancel_the_first))
    assert end in [event.event_type_value for event in result.all_events]
    assert shop.active() == 0


def test_an_execution_that_waits_for_a_driver_is_not_lost_and_can_be_cancelled(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_session, "RENEWAL_SECONDS", 0.0)
    monkeypatch.setattr(driver_session, "WATCH_SECONDS", 0.1)
    execution = shop.submit()
    begun: list[datetime | None] = []

    def cancel_once_renewed() -> None:
        while shop.reload(execution).claimed_at == begun[0]:
            time.sleep(0.01)
        cancel(shop.database, shop.organization_id, execution.id, "Not like this.")

    def waits(_spec: RunRequest) -> list[Message]:
        begun.append(shop.reload(execution).claimed_at)
        threading.Thread(target=cancel_once_renewed).start()
        return []

    compute = BusyCompute(tmp_path, waits)
    result = run(shop, execution, compute)
    assert "PIPELINE_CANCELED" in [event.event_type_value for event in result.all_events]
    assert (compute.cancelled, shop.active()) == ([], 0)


def test_an_execution_that_was_cancelled_before_its_run_cancels_the_run(shop: Shop, tmp_path: Path) -> None:
    execution = shop.submit()
    cancel(shop.database, shop.organization_id, execution.id, "Not like this.")
    result = run(shop, execution, PlayedCompute(tmp_path, lambda _spec: []))
    assert "PIPELINE_CANCELED" in [event.event_type_value for event in result.all_events]


def test_what_the_operator_has_forbidden_since_the_acceptance_is_not_launched(shop: Shop, tmp_path: Path) -> None:
    allowing = replace(shop, settings=shop.settings.replace(scripts=("*",)))
    trace = "{action: evaluate, params: {script: '1', as: one}}"
    shop.write_pipeline(f"fetch: {{url: 'http://a.test/', traces: [{trace}]}}\npipeline: []\n")
    execution, launched = allowing.submit(), list[RunRequest]()

    def note(spec: RunRequest) -> list[Message]:
        launched.append(spec)
        return []

    assert not run(shop, execution, PlayedCompute(tmp_path, note)).success
    failed = shop.reload(execution)
    assert (failed.state, failed.error_code, launched) == ("FAILED", "pipeline-failed", [])
    assert "SPINDLE_SCRIPTS" in (failed.error_message or "")


@pytest.mark.long
def test_a_run_whose_execution_was_deleted_ends_its_driver(shop: Shop, tmp_path: Path) -> None:
    execution = shop.submit()

    def deleted_meanwhile(_spec: RunRequest) -> list[Message]:
        shop.delete_project()
        return []

    compute = PlayedCompute(tmp_path, deleted_meanwhile)
    result = run(shop, execution, compute)
    assert not result.success
    assert compute.cancelled == [DriverHandle(shop.organization_id, execution.id, 1)]


@pytest.mark.long
def test_a_run_whose_execution_was_retried_ends_only_its_own_driver(shop: Shop, tmp_path: Path) -> None:
    execution = shop.submit()

    def retried_meanwhile(_spec: RunRequest) -> list[Message]:
        cancel(shop.database, shop.organization_id, execution.id, "Not like this.")
        shop.retry(execution)
        return []

    compute = PlayedCompute(tmp_path, retried_meanwhile)
    result = run(shop, execution, compute)
    assert not result.success
    assert compute.cancelled == [DriverHandle(shop.organization_id, execution.id, 1)]
    again = shop.reload(execution)
    assert (again.state, again.attempt, again.claimed_at, again.driver) == ("PENDING", 2, None, None)
    assert shop.active() == 1


def test_an_attempt_that_a_stop_of_the_service_ends_is_followed_by_another_one(shop: Shop, tmp_path: Path) -> None:
    execution = shop.submit()
    compute = StoppedCompute(tmp_path, lambda _spec: [{"type": "started"}])
    with suppress(DagsterExecutionInterruptedError):
        run(shop, execution, compute)
    again = shop.reload(execution)
    assert (again.state, again.attempt, again.retries, again.error_message) == ("PENDING", 2, 0, None)
    assert compute.cancelled == [DriverHandle(shop.organization_id, execution.id, 1)]
    assert shop.active() == 1


def test_a_run_follows_the_driver_that_it_had_before_a_restart(shop: Shop, tmp_path: Path) -> None:
    execution = shop.submit()
    claim(shop.database, execution.id, 1, RUN_ID)
    record_driver(shop.database, execution.id, 1, ExecutionDriver("d", "new", 0.0))
    report = {"executionId": execution.id, "status": "FAILED", "additionalMetrics": {"attempt": 1}}
    compute = PlayedCompute(tmp_path, lambda _spec: [])
    compute.send([{"type": "started"}, {"type": "finished", "state": "FAILED", "message": "No.", "payload": report}])
    result = run_jobs(shop, [execution.job_id], compute, Attempt(execution.id, 1, resumes=True))
    assert "STEP_FAILURE" in [event.event_type_value for event in result.all_events]
    assert (shop.reload(execution).state, shop.active()) == ("FAILED", 0)


def test_an_attempt_whose_driver_ended_with_the_service_is_followed_by_another_one(shop: Shop, tmp_path: Path) -> None:
    execution = shop.submit()
    claim(shop.database, execution.id, 1, RUN_ID)
    record_driver(shop.database, execution.id, 1, ExecutionDriver("d", "new", 0.0))
    compute = PlayedCompute(tmp_path, lambda _spec: [])
    result = run_jobs(shop, [execution.job_id], compute, Attempt(execution.id, 1, resumes=True))
    assert not result.success
    again = shop.reload(execution)
    assert (again.state, again.attempt, again.retries, again.claimed_at) == ("PENDING", 2, 0, None)
    assert shop.active() == 1


def test_a_restart_returns_an_attempt_without_a_driver(shop: Shop, tmp_path: Path) -> None:
    execution = shop.submit()
    claim(shop.database, execution.id, 1, RUN_ID)
    compute = PlayedCompute(tmp_path, lambda _spec: [])
    result = run_jobs(shop, [execution.job_id], compute, Attempt(execution.id, 1, resumes=True))
    returned = shop.reload(execution)
    assert not result.success
    assert (returned.state, returned.claimed_at, returned.run_id) == ("PENDING", None, None)
    assert (compute.cancelled, shop.active()) == ([], 1)


def test_packages_are_installed_before_the_driver_and_a_failure_has_the_reason(shop: Shop, tmp_path: Path) -> None:
    index = tmp_path / "wheels"
    package = write_library(index, "adder", "ONE = 1\n")
    settings = shop.settings.replace(package_index=SecretStr(str(index)))
    shop = replace(shop, settings=settings)
    text = f"{PIPELINE.rstrip()}\nspindle: {{packages: [{package}]}}\n"
    caller = shop.caller
    agents.update(shop.database, settings, caller, "none", shop.agent_id, AgentUpdate(pipeline_yaml=text), ())
    execution = shop.submit()
    found: list[str | None] = []

    def looks(spec: RunRequest) -> list[Message]:
        found.append(spec.packages)
        fail(shop.database, spec.execution_id, "It was seen.")
        return []

    run(shop, execution, PlayedCompute(tmp_path, looks))
    (folder,) = found
    assert folder is not None
    assert (Path(folder) / "adder.py").is_file()

    for each in (*index.iterdir(), *(settings.data / "packages").iterdir()):
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    shutil.rmtree(settings.data / "dagster")
    failing = shop.submit()
    assert not run(shop, failing, PlayedCompute(tmp_path, looks)).success
    failed = shop.reload(failing)
    assert (failed.state, failed.error_code) == ("FAILED", "pipeline-failed")
    assert "cannot be installed" in (failed.error_message or "")
    assert "adder" in (failed.error_message or "")
    assert len(found) == 1
