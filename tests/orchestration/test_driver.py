"""What becomes of a run when its execution goes its own way; the compute side is played by the test."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterInstance, ExecuteInProcessResult, mem_io_manager

from core.executions.complete import cancel
from core.infra.database import Database, open_database
from core.infra.migrations import migrate
from core.infra.settings import Settings
from core.projects.repository import ProjectRepository
from core.tables import Execution
from orchestration.compute import Status, driver_name
from orchestration.driver import DriverSession
from orchestration.job import execute_pipeline
from tests.support.shop import Shop, make_shop

# Dagster warns of its own use of Pipes
pytestmark = pytest.mark.filterwarnings("ignore:.*is currently in preview")

Message = Mapping[str, Any]


class PlayedCompute:
    """A driver that says what it is told to say through Dagster Pipes, and runs until it is stopped."""

    def __init__(self, act: Callable[[Message], list[Message]]) -> None:
        self._act = act
        self._running: set[str] = set()
        self.stopped: list[str] = []

    def launch(self, name: str, spec_path: Path, environment: Mapping[str, str], log_path: Path) -> None:
        self._running.add(name)
        spec = json.loads(spec_path.read_text())
        said = [("report_custom_message", {"payload": message}) for message in self._act(spec)]
        lines = [("opened", {"extras": {}}), *said, ("closed", {})] if said else []
        with spec_path.with_name("messages.jsonl").open("w") as file:
            for method, params in lines:
                file.write(json.dumps({"__dagster_pipes_version": "0.1", "method": method, "params": params}) + "\n")

    def observe(self, name: str) -> Status:
        return Status(running=name in self._running)

    def cancel(self, name: str) -> None:
        if name in self._running:
            self._running.remove(name)
            self.stopped.append(name)

    def names(self) -> tuple[str, ...]:
        return tuple(self._running)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    settings = Settings(data=tmp_path / "data")
    migrate(settings)
    database = open_database(settings)
    yield make_shop(settings, database)
    database.close()


def run(shop: Shop, execution: Execution, compute: PlayedCompute) -> ExecuteInProcessResult:
    database: Database = open_database(shop.settings)
    session = DriverSession(shop.settings, database, compute)
    folder = shop.settings.data / "dagster"
    folder.mkdir()
    try:
        return execute_pipeline.execute_in_process(
            run_config={"execution_id": execution.id, "attempt": execution.attempt},
            resources={"driver": session, "io_manager": mem_io_manager},
            instance=DagsterInstance.local_temp(str(folder), {"telemetry": {"enabled": False}}),
            raise_on_error=False,
        )
    finally:
        session.close()


def test_a_report_that_is_refused_fails_the_execution_and_ends_the_driver(shop: Shop) -> None:
    execution = shop.submit()

    def reports_nonsense(spec: Message) -> list[Message]:
        report = {
            "executionId": spec["executionId"],
            "status": "COMPLETED",
            "outputDatasetPath": spec["output"]["path"],
            "outputDatasetSchema": "nonsense",
            "additionalMetrics": {"attempt": spec["attempt"]},
        }
        return [{"type": "finished", "state": "COMPLETED", "message": "", "payload": report}]

    compute = PlayedCompute(reports_nonsense)
    result = run(shop, execution, compute)
    assert not result.success
    failed = shop.reload(execution)
    assert failed.state == "FAILED"
    assert "could not be recorded: 'outputDatasetSchema' is not a JSON list" in (failed.error_message or "")
    assert compute.stopped == [driver_name(execution.id, 1)]
    assert shop.active() == 0


def test_a_run_whose_execution_was_deleted_ends_its_driver(shop: Shop) -> None:
    execution = shop.submit()

    def deleted_meanwhile(_spec: Message) -> list[Message]:
        with shop.database.write() as session:
            ProjectRepository(session, shop.organization_id).delete(shop.project_id)
        return []

    compute = PlayedCompute(deleted_meanwhile)
    result = run(shop, execution, compute)
    assert not result.success
    assert compute.stopped == [driver_name(execution.id, 1)]


def test_a_run_whose_execution_was_retried_ends_its_driver_and_leaves_the_new_attempt_alone(shop: Shop) -> None:
    execution = shop.submit()

    def retried_meanwhile(_spec: Message) -> list[Message]:
        cancel(shop.database, shop.organization_id, execution.id, "Not like this.")
        shop.retry(execution)
        return []

    compute = PlayedCompute(retried_meanwhile)
    result = run(shop, execution, compute)
    assert not result.success
    assert compute.stopped == [driver_name(execution.id, 1)]
    again = shop.reload(execution)
    assert (again.state, again.attempt, again.claimed_at) == ("PENDING", 2, None)
    assert shop.active() == 1
