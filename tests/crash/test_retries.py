"""Attempts of real executions: a killed driver is replaced, a slow one is stopped, and a cancel reaches the pause."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from tests.support.processes import descendants, running
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Job, Service, wait_until
from tests.support.site import Site

pytestmark = pytest.mark.long

PAGES = {"/": "<a href=/1>1</a><a href=/2>2</a>", "/1": "<h1>1</h1>", "/2": "<h1>2</h1>"}
PAGES |= {"/later1": "<h2>one</h2>", "/later2": "<h2>two</h2>"}
PIPELINE = """\
fetch: {{url: "{base}/"}}
pipeline:
  - {{stage: wgetJoin, args: [a]}}
  - {{stage: extract, args: [{{selector: h1, as: number}}]}}
  - {{stage: sql_query, args: ["SELECT *, '{base}/later' || number AS later FROM rows"]}}
  - {{stage: cache}}
  - {{stage: wget, args: [$later]}}
  - {{stage: extract, args: [{{selector: h2, as: name}}]}}
"""


@pytest.fixture(scope="module")
def service(expendable: Service) -> Service:
    return expendable


def make_job(service: Service, pipeline: str, **fields: Any) -> Job:
    job = service.make_job(pipeline)
    with service.client() as client:
        answer = client.put(job.path, json=fields)
    assert answer.is_success, answer.text
    assert answer.json() | fields == answer.json()
    return job


def list_attempts(service: Service, job: Job, execution: str) -> list[dict[str, Any]]:
    return service.get(f"{job.path}/executions/{execution}/attempts")


def find_driver(service: Service, execution: str, attempt: int = 1) -> int:
    pidfiles = [*(service.data / "drivers").glob(f"*.{execution}.{attempt}")]
    return int(pidfiles[0].read_text() or 0) if pidfiles else 0  # it is empty before the pid is written


@pytest.mark.gate
def test_a_killed_driver_is_replaced_by_one_that_resumes(service: Service, web: Site) -> None:
    base = web.serve(PAGES)
    web.hold({"/later1", "/later2"})
    job = make_job(service, PIPELINE.format(base=base), maxRetries=1, retryBackoffSeconds=1)
    execution = service.execute(job)
    wait_until(lambda: "/later1" in web.requests, PATIENCE_SECONDS)
    os.kill(find_driver(service, execution), signal.SIGKILL)
    wait_until(lambda: len(list_attempts(service, job, execution)) == 2, PATIENCE_SECONDS, every=POLL_SECONDS)
    web.hold(())
    status = service.wait(job, execution)
    assert status["status"] == "COMPLETED", status
    first, second = list_attempts(service, job, execution)
    assert (first["status"], first["errorCode"], first["resumedAfter"]) == ("FAILED", "driver-lost", None)
    assert (second["status"], second["errorMessage"], second["resumedAfter"]) == ("COMPLETED", None, "s05_cache")
    assert first["runId"] != second["runId"]
    assert {path: web.requests[path] for path in ("/", "/1", "/2")} == {"/": 1, "/1": 1, "/2": 1}
    answer = service.post("/datasets/query", {"sql": _select(service, job)})
    assert sorted(answer["results"], key=str) == [{"number": "1", "name": "one"}, {"number": "2", "name": "two"}]
    logs = [
        "\n".join(service.get(f"{job.path}/executions/{execution}/logs?attempt={number}")["logs"]) for number in (1, 2)
    ]
    assert ["resumed" in log for log in logs] == [False, True]
    assert not [*(service.data / "storage").glob(f"*/executions/{execution}/*/checkpoints/*/*")]


def test_a_slow_attempt_is_stopped_and_a_pause_can_be_cancelled(service: Service, web: Site) -> None:
    base = web.serve(PAGES)
    web.hold({"/1"})
    slow = make_job(service, PIPELINE.format(base=base), timeoutSeconds=20)
    lost = make_job(service, PIPELINE.format(base=base), maxRetries=1, retryBackoffSeconds=3600)
    paused = service.execute(lost)
    # a driver that is killed before it has said that it has the execution is replaced within the attempt
    wait_until(lambda: web.requests["/1"], PATIENCE_SECONDS)
    os.kill(find_driver(service, paused), signal.SIGKILL)
    timed = service.execute(slow)
    wait_until(lambda: find_driver(service, timed), PATIENCE_SECONDS)
    tree = [find_driver(service, timed)]

    def is_over() -> bool:
        tree[1:] = {*tree[1:], *descendants(tree[0])}
        return service.status(slow, timed)["status"] == "FAILED"

    wait_until(is_over, PATIENCE_SECONDS, every=POLL_SECONDS)
    wait_until(lambda: not running(tree), PATIENCE_SECONDS)
    record = service.get(f"{slow.path}/executions/{timed}")
    assert (record["errorCode"], "20 seconds" in record["errorMessage"]) == ("timeout", True)

    wait_until(lambda: len(list_attempts(service, lost, paused)) == 2, PATIENCE_SECONDS, every=POLL_SECONDS)
    record = service.get(f"{lost.path}/executions/{paused}")
    assert (record["status"], record["attempt"], record["retries"]) == ("PENDING", 2, 1)
    assert record["retryAt"] is not None
    ended = service.post(f"{lost.path}/executions/{paused}/cancel", {})
    assert ended["status"] == "FAILED"
    assert [each["errorCode"] for each in list_attempts(service, lost, paused)] == ["driver-lost", "cancelled"]


def _select(service: Service, job: Job) -> str:
    record = service.get(job.path)
    dataset = service.get(f"/datasets/{record['outputDatasetId']}")
    return f"SELECT number, name FROM {dataset['schema']}.{dataset['tableName']}"
