"""The driver as a process: spec in, Parquet and signed reports out."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import signal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest

from driver.execution import Cancelled, is_cancelled
from tests.support.driver import KEY, await_end, driver, finish, spec
from tests.support.processes import descendants
from tests.support.service import PATIENCE_SECONDS, wait_until
from tests.support.site import Site, serve_gated_site
from tests.support.webhook_receiver import Receiver


def test_an_execution_from_spec_to_parquet(tmp_path: Path, site: Site, receiver: Receiver) -> None:
    base = site.serve(
        {"/": "<a href=/1>1</a><a href=/no>no</a><a href=/2>2</a>", "/1": "<h1>One</h1>", "/2": "<h1>Two</h1>"}
    )
    content = spec(tmp_path, receiver.url, parameters={"BASE": base}, limit=2, arguments=["--fast"])
    with driver(tmp_path, content) as process:
        warning, *log = finish(process, 0)
    assert (warning["level"], warning["arguments"]) == ("WARN", ["--fast"])
    assert warning["timestamp"].endswith("Z")

    first, *_, last = receiver.take()
    for message in (first, last):
        signed = f"{message.headers['webhook-id']}.{message.headers['webhook-timestamp']}.{message.body.decode()}"
        signature = base64.b64encode(hmac.new(KEY, signed.encode(), hashlib.sha256).digest()).decode()
        assert message.headers["webhook-signature"] == f"v1,{signature}"
    assert (first.payload["status"], first.payload["executionId"], first.payload["jobId"]) == ("RUNNING", "e1", "j1")
    assert first.payload["additionalMetrics"]["attempt"] == 2

    done = last.payload
    assert done["status"] == "COMPLETED"
    assert all(done[name].endswith("Z") for name in ("startedAt", "completedAt"))
    assert (done["outputDatasetPath"], done["outputDatasetFormat"]) == (str(tmp_path / "out"), "parquet")
    assert json.loads(done["outputDatasetSchema"]) == [{"name": "title", "type": "string"}]
    assert (done["recordsProcessed"], done["recordsOutput"], done["errorCount"]) == (2, 2, 1)
    assert done["sparkUiUrl"].startswith("http://")
    metrics = done["additionalMetrics"]
    assert (metrics["attempt"], metrics["mode"], metrics["outputName"]) == (2, "overwrite", None)
    assert metrics["progress"]["fraction"] == 1
    stages = {stage["key"]: stage for stage in metrics["progress"]["stages"]}
    assert list(stages) == ["s01_fetch", "s02_wgetJoin", "s03_extract", "s04_output"]
    assert (stages["s02_wgetJoin"]["pages"], stages["s02_wgetJoin"]["errors"]) == (2, 1)
    assert {stage["state"] for stage in stages.values()} == {"COMPLETED"}
    start = metrics["progress"]["startSeconds"]
    assert start > 0.5
    assert start + sum(stage["seconds"] for stage in stages.values()) == pytest.approx(
        done["durationSeconds"], abs=1.5, rel=0.2
    )

    files = sorted((tmp_path / "out").iterdir())
    assert pq.read_table(tmp_path / "out").column("title").to_pylist() == ["One", None]
    assert (done["partitionsCount"], done["outputFileSizeBytes"]) == (len(files), sum(f.stat().st_size for f in files))
    assert {file.stat().st_mode & 0o777 for file in files} == {0o444}
    assert [line["event"] for line in log] == ["planned", "started", "selectors", "completed"]
    assert log[2]["selectors"] == [{"column": "title", "selector": "h1", "pages": 1, "empty": 0}]
    check_measured(done, read=0, written=sum(file.stat().st_size for file in files))
    assert done["metrics"]["pages"] == 3  # none that could only give rows after the limit
    assert done["metrics"]["networkBytes"] == site.bytes_sent


def check_measured(report: dict[str, Any], read: int, written: int) -> None:
    """Figures that can be true of a run that lasted some seconds, read and wrote this much."""
    metrics, seconds = report["metrics"], report["durationSeconds"]
    cpu = metrics["driverCpuSeconds"], metrics["executorCpuSeconds"]
    assert all(0 < each < (os.cpu_count() or 1) * (seconds + 1) for each in cpu), metrics
    assert report["totalCpuTimeSeconds"] == round(sum(cpu))
    driver, executors = report["driverMemoryUsedBytes"], report["executorMemoryUsedBytes"]
    assert 50 * 2**20 < driver < 4 * 2**30
    assert 20 * 2**20 < executors < 2 * 2**30
    assert 0 < metrics["memoryByteSeconds"] < (driver + executors) * (seconds + 1)
    assert (metrics["bytesRead"], metrics["bytesWritten"]) == (read, written)
    assert metrics["tasksCompleted"] > 0
    assert (report["executorCount"], metrics["executorSeconds"]) == (1, 0)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"pipelineYaml": "pipeline:\n- stage: nope"}, "line 2: unknown stage 'nope'"),
        ({}, "line 2: the parameter ${BASE} has no value"),
    ],
)
def test_a_pipeline_that_does_not_plan_is_reported(
    tmp_path: Path, receiver: Receiver, changes: dict[str, Any], sentence: str
) -> None:
    with driver(tmp_path, spec(tmp_path, receiver.url, **changes)) as process:
        log = finish(process, 1)
    failed = receiver.take()[-1].payload
    assert failed["status"] == "FAILED"
    assert failed["errorMessage"].startswith(sentence)
    assert "Traceback" not in failed["errorMessage"]
    assert "Traceback" in next(line for line in log if line["event"] == "the execution failed")["trace"]
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_a_run_without_service_or_dagster_needs_neither(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,x\n")
    text = f"pipeline: [{{stage: load_csv, args: [{{path: {tmp_path}/in.csv, inferSchema: true}}]}}]"
    content = spec(tmp_path, None, pipelineYaml=text, localFolders=[str(tmp_path)])
    with driver(tmp_path, content) as process:
        finish(process, 0)
    assert pq.read_table(tmp_path / "out").to_pylist() == [{"a": 1, "b": "x"}]


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
        credentials={"SHOP_KEY": "c1", "AWS_ENDPOINT_URL": "c2"},
        publicVariables=["AWS_ENDPOINT_URL"],
        fetch={"allowNetworks": ["127.0.0.0/8"], "ownEndpoints": [["localhost", urlsplit(receiver.url).port]]},
    )
    with driver(tmp_path, content) as process:
        log = finish(process, 0)
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


@pytest.mark.long
def test_a_terminated_driver_reports_and_leaves_no_process(tmp_path: Path, receiver: Receiver) -> None:
    with serve_gated_site() as site:
        content = spec(tmp_path, receiver.url, parameters={"BASE": site.url.rstrip("/")})
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
