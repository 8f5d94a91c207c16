"""The driver as a process: spec in, Parquet and signed reports out."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest

from driver.cancellation import Cancelled, is_cancelled
from pipelines.contract.request import VERSION, RunRequest
from tests.support.driver import KEY, await_end, driver, finish, run_driver, spec
from tests.support.processes import descendants
from tests.support.service import PATIENCE_SECONDS, wait_until
from tests.support.site import Site, serve_gated_site
from tests.support.webhook_receiver import Message, Receiver


@dataclass(frozen=True)
class FinishedRun:
    """A driver's run of the example: its log, its reports, its output and the bytes that it was sent."""

    log: list[dict[str, Any]]
    messages: list[Message]
    output: Path
    bytes_sent: int

    @property
    def report(self) -> dict[str, Any]:
        return self.messages[-1].payload

    @property
    def stages(self) -> dict[str, dict[str, Any]]:
        return {stage["key"]: stage for stage in self.report["additionalMetrics"]["progress"]["stages"]}

    @property
    def files(self) -> list[Path]:
        return sorted(self.output.iterdir())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, site: Site, receiver: Receiver) -> FinishedRun:
    folder = tmp_path_factory.mktemp("finished")
    links = "<a href=/1>1</a><a href=/no>no</a><a href=/2>2</a><a href=/3>3</a>"
    pages = {"/": links, "/1": "<h1>One</h1>", "/2": "<h1>Two</h1>", "/3": "<h1>Three</h1>"}
    content = spec(
        folder, receiver.url, parameters={"BASE": site.serve(pages)}, limit=2, arguments=["--fast"], engine="spark"
    )
    log = run_driver(folder, content)
    return FinishedRun(log, receiver.take(), folder / "out", site.bytes_sent)


def test_rows_are_written_to_parquet_files(finished: FinishedRun) -> None:
    assert pq.read_table(finished.output).column("title").to_pylist() == ["One", "Two"]
    assert {file.stat().st_mode & 0o777 for file in finished.files} == {0o444}


def test_the_log_has_a_line_for_each_event(finished: FinishedRun) -> None:
    warning, *events = finished.log
    assert (warning["level"], warning["arguments"]) == ("WARN", ["--fast"]), "arguments without a name"
    names = ["planned", "started", "selectors", "selectors", "requests", "pages failed", "completed"]
    assert [line["event"] for line in events] == names
    assert all(line["timestamp"].endswith("Z") for line in finished.log)
    counts = {"empty": 0, "unfit": 0}
    assert [line["selectors"] for line in events[2:4]] == [
        [{"column": None, "selector": "a", "pages": 1, **counts}],
        [{"column": "title", "selector": "h1", "pages": 2, **counts}],
    ]


def test_reports_are_signed(finished: FinishedRun) -> None:
    for message in finished.messages:
        signed = f"{message.headers['webhook-id']}.{message.headers['webhook-timestamp']}.{message.body.decode()}"
        signature = base64.b64encode(hmac.new(KEY, signed.encode(), hashlib.sha256).digest()).decode()
        assert message.headers["webhook-signature"] == f"v1,{signature}"


def test_the_first_report_is_running_and_the_last_completed(finished: FinishedRun) -> None:
    for payload, status in ((finished.messages[0].payload, "RUNNING"), (finished.report, "COMPLETED")):
        assert (payload["executionId"], payload["jobId"], payload["status"]) == ("e1", "j1", status)
        assert payload["additionalMetrics"]["attempt"] == 2
    assert all(finished.report[name].endswith("Z") for name in ("startedAt", "completedAt"))
    assert finished.report["sparkUiUrl"].startswith("http://")


def test_the_report_describes_the_output_and_counts_records_pages_and_errors(finished: FinishedRun) -> None:
    report, sizes = finished.report, [file.stat().st_size for file in finished.files]
    assert (report["outputDatasetPath"], report["outputDatasetFormat"]) == (str(finished.output), "parquet")
    assert json.loads(report["outputDatasetSchema"]) == [{"name": "title", "type": "string"}]
    assert (report["partitionsCount"], report["outputFileSizeBytes"]) == (len(sizes), sum(sizes))
    metrics = report["additionalMetrics"]
    assert (metrics["mode"], metrics["outputName"]) == ("overwrite", None)
    assert (report["recordsProcessed"], report["recordsOutput"], report["errorCount"]) == (3, 2, 1)
    assert report["metrics"]["pages"] == 4, "pages that only give rows after the limit are not fetched"


def test_the_report_has_the_progress_of_each_stage(finished: FinishedRun) -> None:
    stages = finished.stages
    assert list(stages) == ["s01_fetch", "s02_wgetJoin", "s03_extract", "s04_output"]
    assert (stages["s02_wgetJoin"]["pages"], stages["s02_wgetJoin"]["errors"]) == (3, 1)
    assert {stage["state"] for stage in stages.values()} == {"COMPLETED"}
    assert finished.report["additionalMetrics"]["progress"]["fraction"] == 1


def test_the_seconds_of_start_and_stages_are_those_of_the_run(finished: FinishedRun) -> None:
    start = finished.report["additionalMetrics"]["progress"]["startSeconds"]
    assert start > 0.5
    total = start + sum(stage["seconds"] for stage in finished.stages.values())
    assert total == pytest.approx(finished.report["durationSeconds"], abs=1.5, rel=0.2)


def test_bytes_cpu_time_and_memory_are_measured_and_possible(finished: FinishedRun) -> None:
    report, metrics, seconds = finished.report, finished.report["metrics"], finished.report["durationSeconds"]
    assert (metrics["networkBytes"], metrics["bytesRead"]) == (finished.bytes_sent, 0)
    assert metrics["bytesWritten"] == sum(file.stat().st_size for file in finished.files)
    cpu = metrics["driverCpuSeconds"], metrics["executorCpuSeconds"]
    assert all(0 < each < (os.cpu_count() or 1) * (seconds + 1) for each in cpu), metrics
    assert report["totalCpuTimeSeconds"] == round(sum(cpu))
    driver, executors = report["driverMemoryUsedBytes"], report["executorMemoryUsedBytes"]
    assert 50 * 2**20 < driver < 4 * 2**30
    assert 20 * 2**20 < executors < 2 * 2**30
    assert 0 < metrics["memoryByteSeconds"] < (driver + executors) * (seconds + 1)
    assert (report["executorCount"], metrics["executorSeconds"]) == (1, 0), "on the driver's machine"
    assert metrics["tasksCompleted"] > 0


def test_a_pipeline_that_does_not_plan_is_reported(tmp_path: Path, receiver: Receiver) -> None:
    log = run_driver(tmp_path, spec(tmp_path, receiver.url, pipelineYaml="pipeline:\n- stage: nope"), 1)
    failed = receiver.take()[-1].payload
    assert failed["status"] == "FAILED"
    assert failed["errorMessage"].startswith("line 2: unknown stage 'nope'")
    assert "Traceback" not in failed["errorMessage"]
    assert "Traceback" in next(line for line in log if line["event"] == "the execution failed")["trace"]
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_a_request_of_a_later_version_is_refused_before_its_other_fields(tmp_path: Path) -> None:
    with driver(tmp_path, {"version": VERSION + 1, "pipeline": "an unknown field"}) as process:
        _, log = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert f"has version {VERSION + 1}, and this driver reads {VERSION} or earlier" in log.splitlines()[-1]
    request = RunRequest.model_validate(spec(tmp_path, None))  # one that was stored before there were versions
    assert json.loads(request.to_json())["version"] == VERSION


def test_a_run_without_service_or_dagster_needs_neither(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,x\n")
    text = f"pipeline: [{{stage: load_csv, args: [{{path: {tmp_path}/in.csv}}]}}]"
    content = spec(tmp_path, None, pipelineYaml=text, localFolders=[str(tmp_path)])
    run_driver(tmp_path, content)
    assert pq.read_table(tmp_path / "out").to_pylist() == [{"a": "1", "b": "x"}]


@pytest.mark.long
def test_addresses_hide_a_secret_logs_show_an_endpoint_and_own_ports_are_refused(
    tmp_path: Path, site: Site, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {"/next": "<h1>https://s3.test.example</h1>"}
    pages["/?key=ge%20heim%20nis"] = f"<h1>a</h1><a href=next>n</a><a href={receiver.url}>own</a>"
    base = site.serve(pages)
    monkeypatch.setenv("SHOP_KEY", "ge heim nis")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://s3.test.example")
    text = """
        fetch: {url: "${BASE}/?key=${SHOP_KEY}"}
        pipeline:
          - {stage: explore, args: [a, 1]}
          - {stage: extract, args: [{selector: h1, as: title}, {field: _url, as: page}]}
          - {stage: echo, args: [seen]}
        spindle: {keepColumns: [_url, _requestedUrl, _error]}
    """
    content = spec(
        tmp_path,
        receiver.url,
        pipelineYaml=text,
        parameters={"BASE": base, "SHOP_KEY": "${SHOP_KEY}"},
        steps=[{"key": "s01_fetch", "title": "fetch ${BASE}/?key=${SHOP_KEY}"}],
        credentials={"SHOP_KEY": "c1", "AWS_ENDPOINT_URL": "c2"},
        publicVariables=["AWS_ENDPOINT_URL"],
        fetch={"allowNetworks": ["127.0.0.0/8"], "ownEndpoints": [["localhost", urlsplit(receiver.url).port]]},
    )
    log = run_driver(tmp_path, content)
    own = receiver.url.rstrip("/") + "/"
    rows = {row.pop("_url"): row for row in pq.read_table(tmp_path / "out").to_pylist()}
    hidden, shown = f"{base}/?key=********", f"{base}/next"
    assert "an address of this service itself" in rows[own].pop("_error")
    assert rows == {
        hidden: {"title": "a", "page": hidden, "_requestedUrl": hidden, "_error": None},
        shown: {"title": "https://s3.test.example", "page": shown, "_requestedUrl": shown, "_error": None},
        own: {"title": None, "page": own, "_requestedUrl": own},
    }
    assert "https://s3.test.example" in str(log)
    planned = next(line for line in log if line["event"] == "planned")
    assert planned["steps"][0] == "fetch ${BASE}/?key=${SHOP_KEY}"


@pytest.mark.long
def test_a_terminated_driver_reports_and_leaves_no_process(tmp_path: Path, receiver: Receiver) -> None:
    with serve_gated_site() as site:
        content = spec(tmp_path, receiver.url, parameters={"BASE": site.url.rstrip("/")}, engine="spark")
        with driver(tmp_path, content) as process:
            site.wait_for_visitor()
            children = descendants(process.pid)
            assert children, "a JVM and its Python workers"
            process.send_signal(signal.SIGTERM)
            finish(process, 143)
    failed = receiver.take()[-1].payload
    assert (failed["status"], failed["errorMessage"]) == ("FAILED", "The driver was terminated.")
    assert failed["totalCpuTimeSeconds"] > 0
    assert failed["driverMemoryUsedBytes"] > 50 * 2**20
    assert failed["metrics"]["memoryByteSeconds"] > 0
    await_end(children)


def test_a_cancellation_stays_one_when_a_call_of_java_fails_meanwhile() -> None:
    failed = AttributeError()
    failed.__context__ = ValueError()
    assert not is_cancelled(failed)
    failed.__context__.__context__ = Cancelled()
    assert is_cancelled(failed)


@pytest.mark.long
def test_a_killed_driver_leaves_no_process(tmp_path: Path, receiver: Receiver) -> None:
    with serve_gated_site() as site:
        content = spec(tmp_path, receiver.url, parameters={"BASE": site.url.rstrip("/")})
        with driver(tmp_path, content) as process:
            site.wait_for_visitor()
            children = descendants(process.pid)
            wait_until(lambda: measured(receiver), PATIENCE_SECONDS)  # heartbeats tell what it has used so far
            process.kill()
            process.wait()
            site.open()
            await_end(children)
    last = receiver.take()[-1].payload
    assert last["status"] == "RUNNING"
    assert last["driverMemoryUsedBytes"] > 50 * 2**20


def measured(receiver: Receiver) -> bool:
    return bool(receiver.messages) and receiver.messages[-1].payload.get("totalCpuTimeSeconds", 0) > 0


def test_a_driver_without_spark_ends_with_a_sentence_when_it_needs_too_much_memory(
    tmp_path: Path, site: Site, receiver: Receiver
) -> None:
    base = site.serve({"/": "<a href=/1>1</a>", "/1": "<h1>One</h1>"})
    site.hold({"/1"})  # the run would not end by itself
    content = spec(tmp_path, receiver.url, parameters={"BASE": base}, memory_bytes=10_000_000)
    try:
        with driver(tmp_path, content) as process:
            finish(process, 1)
    finally:
        site.hold(())
    report = receiver.take()[-1].payload
    assert (report["status"], report["additionalMetrics"]["errorCode"]) == ("FAILED", "pipeline-failed")
    assert "needed more than 0.0 GB of memory" in report["errorMessage"]


@pytest.mark.parametrize("engine", ["auto", pytest.param("spark", marks=pytest.mark.long)])
def test_a_driver_that_does_not_publish_writes_its_output_alone(
    tmp_path: Path, site: Site, receiver: Receiver, engine: str
) -> None:
    pages = {"/": "<a href=/1>1</a>", "/1": "<h1>One</h1>"}
    pipeline = f"""
fetch: {{url: "${{BASE}}/"}}
pipeline:
  - {{stage: wgetJoin, args: [a]}}
  - {{stage: extract, args: [{{selector: h1, as: title}}]}}
  - {{stage: save_csv, args: ["{tmp_path}/copy", overwrite]}}
  - {{stage: save_jdbc, args: ["jdbc:sqlite:{tmp_path}/nowhere/x.db", titles]}}
output: {{format: delta, mode: append, path: "{tmp_path}/table"}}
"""
    content = spec(
        tmp_path,
        receiver.url,
        pipelineYaml=pipeline,
        parameters={"BASE": site.serve(pages)},
        localFolders=[str(tmp_path)],
        publishes=False,
        engine=engine,
    )
    run_driver(tmp_path, content)
    report = receiver.take()[-1].payload
    assert (report["status"], report["outputDatasetFormat"], report["recordsOutput"]) == ("COMPLETED", "parquet", 1)
    assert report["additionalMetrics"]["saves"] == []
    assert pq.read_table(tmp_path / "out").to_pylist() == [{"title": "One"}]
    assert not (tmp_path / "copy").exists()
    assert not (tmp_path / "table").exists()
