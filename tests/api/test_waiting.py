"""`execute?wait=`: an answer after the end of the execution, with its first rows."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest

from core.lifecycle.executions.waiting import ExecutionWaiter
from tests.support.api import ROWS, Api, Job, Server, read_code
from tests.support.service import PATIENCE_SECONDS, wait_until


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(70) as pool:
        yield pool


def execute(job: Job, query: str, **headers: str) -> httpx.Response:
    return job.api.call("POST", f"{job.path}/execute{query}", headers=headers)


def begin(pool: ThreadPoolExecutor, job: Job, query: str, **headers: str) -> tuple[str, Future[httpx.Response]]:
    """Send a request that waits; return the id of its execution too."""
    answer = pool.submit(execute, job, query, **headers)
    executions: list[Any] = []
    wait_until(lambda: executions.extend(job.api.get(f"{job.path}/executions")) or executions, PATIENCE_SECONDS)
    return executions[0]["executionId"], answer


@pytest.mark.parametrize(("query", "headers"), [("?wait=30", {}), ("", {"Prefer": 'respond-async, Wait = "30"'})])
def test_the_answer_is_the_completed_execution(
    job: Job, pool: ThreadPoolExecutor, query: str, headers: dict[str, str]
) -> None:
    execution, future = begin(pool, job, query, **headers)
    dataset = job.complete(execution, ROWS)
    answer = future.result()
    assert answer.status_code == 200
    record = answer.json()
    assert (record["executionId"], record["status"], record["datasetId"]) == (execution, "COMPLETED", dataset)
    assert (record["rows"], record["rowsProblem"]) == (None, None)
    assert (record["success"], record["message"]) == (True, "The execution was completed.")
    assert answer.headers.get("Preference-Applied") == ("wait=30" if headers else None)
    shown = job.api.get(f"{job.path}/executions/{execution}")
    assert {name: record[name] for name in shown} == shown


def test_the_answer_has_the_first_rows(job: Job, pool: ThreadPoolExecutor) -> None:
    execution, future = begin(pool, job, "?wait=30&rows=1")
    job.complete(execution, ROWS)
    assert future.result().json()["rows"] == [{"title": "kettle", "price": 19.5}]


def test_a_failed_execution_is_answered_with_200(job: Job, pool: ThreadPoolExecutor) -> None:
    execution, future = begin(pool, job, "?wait=30&rows=5")
    job.report(execution, "FAILED", errorMessage="It broke.")
    answer = future.result()
    assert (answer.status_code, answer.json()["status"], answer.json()["errorMessage"]) == (200, "FAILED", "It broke.")
    assert (answer.json()["rows"], answer.json()["success"]) == (None, False)


@pytest.mark.parametrize("query", ["?wait=0", "?wait=1"])
def test_what_has_not_ended_is_answered_with_the_submission(job: Job, query: str) -> None:
    answer = execute(job, query)
    assert (answer.status_code, answer.json()["status"], answer.json()["success"]) == (202, "SUBMITTED", True)
    assert job.status(answer.json()["executionId"])["status"] == "PENDING"


def test_a_repeated_request_waits_for_the_same_execution(job: Job, pool: ThreadPoolExecutor) -> None:
    key = {"Idempotency-Key": str(uuid4())}
    execution, future = begin(pool, job, "?wait=30", **key)
    second = pool.submit(execute, job, "?wait=20&rows=1", **key)
    assert execute(job, "", **key).json()["executionId"] == execution
    job.complete(execution, ROWS)
    assert [each.result().json()["executionId"] for each in (future, second)] == [execution] * 2
    assert second.result().json()["rows"] == [{"title": "kettle", "price": 19.5}]
    assert execute(job, "?wait=1", **key).json()["status"] == "COMPLETED"


def test_waits_that_are_refused_execute_nothing(server: Server, acme: Api, job: Job) -> None:
    for query, code in (("?wait=61", "invalid-value"), ("?wait=-1", "invalid-value"), ("?rows=5", "missing-field")):
        answer = execute(job, query)
        assert read_code(answer) == (400, code)
    executor = server.caller(acme.organization_id, "etl:execute")
    answer = executor.call("POST", f"{job.path}/execute?wait=1&rows=5")
    assert read_code(answer) == (403, "missing-scope")
    assert acme.get(f"{job.path}/executions") == []
    assert executor.call("POST", f"{job.path}/execute?wait=0").status_code == 202


def test_a_preference_beyond_the_limit_waits_up_to_it(job: Job, pool: ThreadPoolExecutor) -> None:
    execution, future = begin(pool, job, "", Prefer="wait=600")
    job.report(execution, "FAILED", errorMessage="It broke.")
    assert future.result().headers["Preference-Applied"] == "wait=60"


def test_waiting_requests_hold_neither_threads_nor_connections(
    job: Job, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    wait = ExecutionWaiter.wait

    def count(waiter: ExecutionWaiter, execution_id: str, seconds: float) -> Awaitable[bool]:
        begun.append(execution_id)
        return wait(waiter, execution_id, seconds)

    monkeypatch.setattr(ExecutionWaiter, "wait", count)
    execution = execute(job, "", **{"Idempotency-Key": job.id}).json()["executionId"]
    waiting = [pool.submit(execute, job, "?wait=60", **{"Idempotency-Key": job.id}) for _ in range(60)]
    wait_until(lambda: len(begun) == 60, PATIENCE_SECONDS)
    job.api.get(job.path)  # the service has 40 threads and fewer connections
    assert not any(each.done() for each in waiting)
    job.complete(execution, ROWS)
    assert {each.result().json()["status"] for each in waiting} == {"COMPLETED"}
