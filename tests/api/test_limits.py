"""Requests a minute, and calls that are made twice."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import httpx
import pytest

from api.app import create_app
from tests.support.api import BASE, Api, Job, Server, running, within_a_minute
from tests.support.service import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def strict(server: Server) -> Generator[Server]:
    """Whose callers may make five requests a minute, an application of its own on the same data."""
    settings = server.settings.replace(requests_per_minute=5)
    with running(create_app(settings)) as url, httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as client:
        yield Server(client, settings)


def test_exactly_so_many_requests_a_minute_are_answered(strict: Server):
    answers = within_a_minute(lambda: twenty(strict.caller(f"strict {uuid4()}", "admin")))
    assert sorted(answer.status_code for answer in answers) == [200] * 5 + [429] * 15
    admitted = sorted(int(answer.headers["RateLimit-Remaining"]) for answer in answers if answer.is_success)
    assert admitted == [0, 1, 2, 3, 4]
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert 0 < int(refused.headers["Retry-After"]) <= 60
    assert (refused.headers["RateLimit-Limit"], refused.headers["RateLimit-Remaining"]) == ("5", "0")
    assert refused.json()["code"] == 429


def twenty(caller: Api) -> list[httpx.Response]:
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda _: caller.call("GET", "/projects"), range(20)))


def test_every_authenticated_answer_has_the_remaining_allowance(acme: Api):
    for method, path in (
        ("GET", "/projects"), ("GET", "/projects/id/unknown"), ("PATCH", "/projects"), ("GET", "/nothing")
    ):  # fmt: skip
        headers = acme.call(method, path).headers
        assert int(headers["RateLimit-Remaining"]) < int(headers["RateLimit-Limit"])
        assert 0 < int(headers["RateLimit-Reset"]) <= 60
    for key in ({}, {"X-API-Key": "unknown"}):
        for method in ("GET", "PATCH"):
            assert "RateLimit-Limit" not in acme.client.request(method, f"{BASE}/projects", headers=key).headers


def test_a_method_that_is_not_known_counts_too(strict: Server):
    def patch() -> list[int]:
        caller = strict.caller(f"strict {uuid4()}", "admin")
        return [caller.call("PATCH", "/projects").status_code for _ in range(6)]

    assert within_a_minute(patch) == [405] * 5 + [429]


def test_one_idempotency_key_takes_the_same_json_in_any_form(acme: Api, job: Job):
    def execute(body: str) -> httpx.Response:
        headers = {"Idempotency-Key": f"form {job.id}", "Content-Type": "application/json"}
        return acme.call("POST", f"{job.path}/execute", content=body, headers=headers)

    bodies = (
        '{"arguments":["A1"],"parameters":{"limit":1}}', '{ "parameters": {"limit": 1}, "arguments": ["A1"] }\n'
    )  # fmt: skip
    assert len({execute(body).json()["executionId"] for body in bodies}) == 1
    assert execute('{"arguments":["A1"],"parameters":{"limit":2}}').status_code == 409


def test_a_task_started_twice_with_one_key_runs_once(acme: Api, job: Job):
    task = acme.post(f"{job.path}/tasks", {"name": "t"})["id"]
    for _ in range(2):
        headers = {"Idempotency-Key": f"start {task}"}
        assert acme.call("POST", f"{job.path}/tasks/{task}/start", headers=headers).status_code == 200
    assert len(acme.get(f"{job.path}/executions")) == 1


def test_a_key_counts_alike_in_either_spelling_of_a_path_and_for_no_other_job(acme: Api, job: Job):
    headers = {"Idempotency-Key": f"either {job.id}"}
    paths = (f"{job.path}/execute", f"/projects/{job.project_id}/jobs/{job.id}/execute")
    answers = [acme.call("POST", path, headers=headers) for path in paths]
    assert len({answer.json()["executionId"] for answer in answers}) == 1
    other = acme.job(f"other {job.id}")
    assert acme.call("POST", f"{other.path}/execute", headers=headers).status_code == 409
    task = acme.get(job.path)["taskIds"][0]
    assert acme.call("POST", f"{job.path}/tasks/{task}/start", headers=headers).status_code == 409


def test_a_field_that_execute_does_not_know_is_refused_with_similar_ones(acme: Api, job: Job):
    refused = acme.call("POST", f"{job.path}/execute", json={"limt": 3})
    assert refused.status_code == 400
    assert [(each["path"], each["code"]) for each in refused.json()["details"]] == [("limt", "unknown-field")]
    assert "limit" in refused.json()["details"][0]["message"]
    hints = {"jobType": "x", "jobParameters": {}, "documents": [], "cloudProviderId": "aws"}
    assert acme.call("POST", f"{job.path}/execute", json=hints).is_success
