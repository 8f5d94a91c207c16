"""The specification's rules beside its operations: states (section 3), authentication (5), events (6), limits (8)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.infra.settings import Settings
from tests.api.operations import OPENAPI, OPERATIONS
from tests.support.api import Api, Job, Server

EXECUTE = "/api/svc/api/projects/id/{projectId}/jobs/{jobId}/execute"
LOGS = "/api/svc/api/projects/id/{projectId}/jobs/{jobId}/executions/{executionId}/logs"
ZOMBIES = "/api/svc/api/projects/admin/tasks/mark-zombies"


def spec_of(path: str) -> Any:
    return next(operation.spec for operation in OPERATIONS if operation.path == path)


def test_3_a_webhook_that_says_running_makes_it_run_and_its_metrics_are_stored(job: Job):
    execution = job.execute()
    assert job.report(execution, "RUNNING", recordsProcessed=7) == {}
    assert job.status(execution)["status"] == "RUNNING"
    metrics = job.api.get(f"{job.path}/executions/{execution}/metrics")["metrics"]
    assert metrics["execution"]["recordsProcessed"] == 7


def test_3_a_webhook_that_says_failed_records_the_message(job: Job):
    execution = job.execute()
    job.report(execution, "FAILED", errorMessage="no rows")
    status = job.status(execution)
    assert (status["status"], status["errorMessage"]) == ("FAILED", "no rows")


def test_marking_zombies_fails_tasks_that_run_longer_than_24_hours(job: Job):
    execution, young = job.execute(), job.execute()
    started = datetime.now(UTC) - timedelta(hours=25)
    job.report(execution, "RUNNING", startedAt=started.isoformat())
    job.report(young, "RUNNING")
    answer = job.api.call("POST", ZOMBIES).json()
    task, _ = job.api.get(f"{job.path}/tasks")
    assert (answer["markedCount"], answer["markedTaskIds"], answer["timeoutHours"]) == (1, [int(task["id"])], 24)
    assert (job.status(execution)["status"], job.status(young)["status"]) == ("FAILED", "RUNNING")
    assert task["executionStatus"] == "FAILED"
    assert "FAILED" in task["executionLog"]
    metrics = job.api.get(f"{job.path}/tasks/{task['id']}/metrics")
    assert metrics["completedAt"] is not None
    assert metrics["durationSeconds"] >= 25 * 3600
    assert job.api.call("POST", f"{ZOMBIES}?timeoutHours=-1").status_code == 400


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('{"recordsProcessed": "abc"}', "recordsProcessed"),
        ('{"recordsProcessed": 1e999}', "recordsProcessed"),
        ('{"durationSeconds": {}}', "durationSeconds"),
        ('{"startedAt": "\\ud800"}', "startedAt"),
        ('{"recordsOutput": 1, "x": ' + "[" * 100_000, "recordsOutput"),
    ],
)
def test_metrics_in_a_clients_log_are_reported(job: Job, line: str, name: str):
    task = job.api.post(f"{job.path}/tasks", {"name": "by hand", "executionLog": line})
    assert job.api.get(f"{job.path}/tasks/{task['id']}/metrics")[name] is None


@pytest.mark.parametrize("status", ['"\\ud800"', "5", '""', "[]"])
def test_3_a_status_that_is_none_is_that_of_the_task(job: Job, status: str):
    task = job.api.post(f"{job.path}/tasks", {"name": "by hand", "executionLog": f'{{"status": {status}}}'})
    assert job.api.get(f"{job.path}/tasks/{task['id']}/metrics")["status"] == "PENDING"


def test_5_the_scheme_is_a_key_in_the_header():
    [(name, scheme)] = OPENAPI["components"]["securitySchemes"].items()
    assert (name, scheme["type"], scheme["in"], scheme["name"]) == ("ApiKeyAuth", "apiKey", "header", "X-API-Key")


def test_5_marking_zombies_needs_the_scope_admin():
    assert spec_of(ZOMBIES)["security"] == [{"ApiKeyAuth": ["admin"]}]


def test_5_the_key_that_opens_credentials_is_optional():
    [header] = [each for each in spec_of(EXECUTE)["parameters"] if each["name"] == "X-Encryption-Key"]
    assert (header["in"], header["required"]) == ("header", False)


@pytest.mark.parametrize("status", ["RUNNING", "COMPLETED", "FAILED"])
def test_6_the_completion_webhook_answers_200_with_an_empty_object(job: Job, status: str):
    body = {"executionId": job.execute(), "status": status}
    answer = job.api.call("POST", f"{job.path}/completion", json=body)
    assert (answer.status_code, answer.json()) == (200, {})


def test_8_a_key_makes_1000_requests_a_minute(acme: Api):
    assert Settings().api.requests_per_minute == 1000
    told = int(acme.call("GET", "/projects/test").headers["RateLimit-Limit"])
    assert told == acme.settings.api.requests_per_minute


def test_8_a_generic_table_shows_50_records_of_page_0(server: Server):
    page = server.caller("a table of its own", "admin").get("/api/api/cms-tables/any")
    assert (page["page"], page["pageSize"]) == (0, 50)


def test_8_logs_have_100_lines():
    [tail] = [each for each in spec_of(LOGS)["parameters"] if each["name"] == "tail"]
    assert tail["schema"]["default"] == 100
