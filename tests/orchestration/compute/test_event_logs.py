"""Spark's event logs: one of each execution, also where one driver serves several, and without secrets."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.infra.storage.protocol import event_log_key
from orchestration.compute.local import LocalCompute
from orchestration.compute.protocol import DriverHandle, DriverSource
from tests.support.service import PATIENCE_SECONDS, free_port, wait_until
from tests.support.spares import keep_spares, make_spec, wait_for_spare

pytestmark = pytest.mark.long

SECRET = 'canary "of" the first'
PIPELINE = """
pipeline:
  - {stage: load_csv, args: [{path: "%s", header: true}]}
  - {stage: filter, args: ["name <> '${KEY}'"]}
"""

ENDLESS = """
pipeline:
  - {stage: load_csv, args: [{path: "%s", header: true}]}
  - {stage: sql_query, args: ["SELECT count(*) AS n FROM rows, (SELECT explode(sequence(1, 50000)) AS a),
      (SELECT explode(sequence(1, 50000)) AS b), (SELECT explode(sequence(1, 50000)) AS c)"]}
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    data = tmp_path_factory.mktemp("event logs") / "data"
    data.mkdir()
    (data.parent / "rows.csv").write_text("name\nbook\n")
    return Settings(
        data=data, spark_master="local[1]", spark_driver_memory="512m", spare_drivers=1, spark_event_log=True
    )


@pytest.fixture(scope="module")
def compute(settings: Settings) -> LocalCompute:
    return LocalCompute(settings)


@pytest.fixture(scope="module")
def logs(compute: LocalCompute, settings: Settings) -> Iterator[dict[str, list[dict[str, Any]]]]:
    """The event logs of two executions that one driver has served, by their ids."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orchestration.compute.host_keeper.compute_fingerprint", lambda: "unchanged")
        with keep_spares(compute):
            yield {execution: run(compute, settings, execution) for execution in ("first", "second")}


def run(compute: LocalCompute, settings: Settings, execution: str) -> list[dict[str, Any]]:
    handle, event_log = launch(compute, settings, execution, PIPELINE)
    wait_until(lambda: not compute.observe(handle).running, PATIENCE_SECONDS)
    assert '"completed"' in compute.read_logs(handle)[-1]
    return read_events(event_log)


def launch(compute: LocalCompute, settings: Settings, execution: str, pipeline: str) -> tuple[DriverHandle, Path]:
    """Return the driver of the execution, and the path of its event log."""
    wait_for_spare(settings.data)
    spec = make_spec(
        settings,
        execution,
        pipeline % (settings.data.parent / "rows.csv"),
        organization_id="organization",
        parameters={"KEY": "${KEY}"},
        credentials={"KEY": "credential"},
        event_log=open_storage(settings.storage).url_for(event_log_key(execution, 1), "spark"),
    )
    launched = compute.launch(spec, {"KEY": SECRET})
    assert (launched.source is DriverSource.WARM) == (execution != "first")
    return launched.handle, Path(spec.event_log or "")


def read_events(path: Path) -> list[dict[str, Any]]:
    content = pa.BufferReader(path.read_bytes())
    text = pa.input_stream(content, compression="zstd").read().decode()
    return [json.loads(line) for line in text.splitlines()]


def find(log: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in log if event["Event"].rpartition(".")[2] == f"SparkListener{kind}"]


def test_each_execution_of_a_driver_has_its_own_log(logs: dict[str, list[dict[str, Any]]]) -> None:
    for execution, log in logs.items():
        (start,) = find(log, "ApplicationStart")
        assert (start["App ID"], start["App Attempt ID"], start["App Name"]) == (execution, "1", "job")
        assert [event["Event"] for event in log[-1:]] == ["SparkListenerApplicationEnd"]
        assert find(log, "EnvironmentUpdate")
        assert find(log, "ExecutorAdded")
    first, second = ({event["Job ID"] for event in find(log, "JobStart")} for log in logs.values())
    assert first
    assert second
    assert max(first) < min(second)


def test_no_secret_is_in_a_log(logs: dict[str, list[dict[str, Any]]]) -> None:
    for log in logs.values():
        (plan,) = [event for event in find(log, "SQLExecutionStart") if "rows.csv" in json.dumps(event)][-1:]
        assert "name" in plan["physicalPlanDescription"]
        assert SECRET not in json.dumps(log)
        assert "canary" not in json.dumps(log)


@pytest.mark.usefixtures("logs")
def test_a_history_server_shows_the_executions(settings: Settings) -> None:
    port = str(free_port())
    command = [sys.executable, "-m", "cli.main", "history", "--data", str(settings.data), "--port", port]
    with subprocess.Popen(command) as server, httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        try:
            # also requests during the first scan: their answers must not stay
            wait_until(lambda: has_page(client, "second"), PATIENCE_SECONDS, every=0.01)
            wait_until(lambda: len(read_applications(client)) == 2, PATIENCE_SECONDS)
            assert {each["id"]: each["name"] for each in read_applications(client)} == {"first": "job", "second": "job"}
            page = client.get("/history/second/1/SQL/", timeout=60, follow_redirects=True)
            assert page.is_success
            assert "canary" not in page.text
            jobs = client.get("/api/v1/applications/second/1/jobs", timeout=60).json()
            assert {each["status"] for each in jobs} == {"SUCCEEDED"}
        finally:
            server.terminate()


def has_page(client: httpx.Client, execution: str) -> bool:
    with suppress(httpx.ConnectError):
        return client.get(f"/history/{execution}/1/jobs/", timeout=60, follow_redirects=True).is_success
    return False


@pytest.mark.usefixtures("logs")
def test_a_cancelled_execution_leaves_what_it_did(compute: LocalCompute, settings: Settings) -> None:
    handle, event_log = launch(compute, settings, "cancelled", ENDLESS)
    wait_until(lambda: has_task_of_endless(settings), PATIENCE_SECONDS)
    compute.cancel(handle)
    log = read_events(event_log)
    assert [each["App ID"] for each in find(log, "ApplicationStart")] == ["cancelled"]
    assert find(log, "JobStart")
    assert SECRET not in json.dumps(log)


def has_task_of_endless(settings: Settings) -> bool:
    """Return whether a task has begun after the endless statement."""
    files = (settings.data / "scratch").glob("*/*.inprogress")
    return any("SparkListenerTaskStart" in file.read_text().partition("explode(")[2] for file in files)


def read_applications(client: httpx.Client) -> list[dict[str, Any]]:
    try:
        return client.get("/api/v1/applications").json()
    except httpx.TransportError:
        return []
