"""Every error has the one shape, names a field or line and a code, and reveals nothing internal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from api.app import create_app
from core.errors import BadInput, Detail
from tests.support.api import PIPELINE, Api, running

BROKEN = "pipeline:\n  - {stage: extract, args: [{selector: h1, method: text}]}\n  - {stage: wgetJion, args: [a]}\n"

INVALID, CONTENT_TYPE = "invalid-value", "invalid-content-type"
# method, path, request, status; path (its start) and code of the first detail
EARLY, LATE = "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"  # in UTC outside of what a date can be
DEEP = b'{"executionId": "x", "status": "RUNNING", "metrics": {"a": ' + b"[" * 900 + b"]" * 900 + b"}}"
ERRORS: list[tuple[str, str, dict[str, Any], int, str | None, str]] = [
    ("GET", "/nothing", {}, 404, None, "unknown-path"),
    ("GET", "/projects/", {}, 404, None, "unknown-path"),
    ("PATCH", "/projects", {}, 405, None, "method-not-allowed"),
    ("GET", "/api", {}, 404, None, "unknown-path"),
    ("GET", "/api/svc", {}, 404, None, "unknown-path"),
    ("OPTIONS", "/projects", {}, 405, None, "method-not-allowed"),
    ("POST", "/projects/id/x/webhooks/y", {}, 405, None, "method-not-allowed"),
    ("GET", "/projects?cursor=%00", {}, 400, "cursor", INVALID),
    ("GET", "/projects/id/" + "x" * 7000, {}, 404, None, "not-found"),
    ("GET", "/projects/id/%ff%fe", {}, 404, None, "not-found"),
    ("GET", "/projects/id/unknown", {}, 404, None, "not-found"),
    ("GET", "/projects/nobody", {}, 404, None, "not-found"),
    ("GET", "/projects/id/%00", {}, 404, None, "not-found"),
    ("GET", "/projects?limit=0", {}, 400, "limit", INVALID),
    ("GET", "/projects?limit=x", {}, 400, "limit", INVALID),
    ("POST", "/projects", {"content": b"{"}, 400, "body", "invalid-json"),
    ("POST", "/projects", {"content": b"\xff\xfe"}, 400, "body", "invalid-json"),
    ("POST", "/projects", {"content": b"[" * 100_000}, 400, None, "unreadable-request"),
    ("POST", "/projects", {"content": b'{"name": "x", "parameters": {"a": NaN}}'}, 400, "parameters.a", INVALID),
    ("POST", "/projects", {"content": b'{"name": %s}' % (b"9" * 5000)}, 400, None, "unreadable-request"),
    ("POST", "/projects", {"content": b"<x/>", "headers": {"Content-Type": "text/xml"}}, 400, "body", CONTENT_TYPE),
    ("POST", "/projects", {"data": {"name": "x"}}, 400, "body", CONTENT_TYPE),
    ("POST", "/projects", {"files": {"name": b"x"}}, 400, "body", CONTENT_TYPE),
    ("POST", "/projects/id/x/jobs/y/execute?queue=maybe", {}, 400, "queue", INVALID),
    ("POST", "/projects/id/x/jobs/y/execute", {"content": b"{"}, 400, "body", "invalid-json"),
    ("POST", "/projects/id/x/jobs/y/execute", {"headers": {"Idempotency-Key": "x" * 256}}, 400, "Idempotency", INVALID),
    ("PUT", "/projects/id/x", {"json": {}, "headers": {"If-Match": "x" * 5000}}, 400, "If-Match", INVALID),
    ("GET", "/projects/id/x/events", {"headers": {"Last-Event-ID": "one"}}, 400, "Last-Event-ID", INVALID),
    ("POST", "/projects", {"content": b""}, 400, "body", "missing-field"),
    ("POST", "/projects", {"json": []}, 400, "body", INVALID),
    ("POST", "/projects", {"json": "x"}, 400, "body", INVALID),
    ("POST", "/projects", {"json": {}}, 400, "name", "missing-field"),
    ("POST", "/projects", {"json": {"name": 1}}, 400, "name", INVALID),
    ("POST", "/projects", {"json": {"name": None}}, 400, "name", INVALID),
    ("POST", "/projects", {"json": {"name": " "}}, 400, "name", INVALID),
    ("POST", "/projects", {"json": {"name": "test"}}, 400, "name", INVALID),
    ("POST", "/projects", {"json": {"name": "x" * 300}}, 400, "name", INVALID),
    ("POST", "/projects", {"json": {"name": "a\0b"}}, 400, "name", INVALID),
    ("POST", "/projects", {"json": {"name": "x", "enabled": "yes"}}, 400, "enabled", INVALID),
    ("POST", "/projects", {"json": {"name": "x", "enabled": 1}}, 400, "enabled", INVALID),
    ("POST", "/projects", {"json": {"name": "x", "cronSchedule": "at five"}}, 400, "cronSchedule", INVALID),
    ("POST", "/projects", {"json": {"name": "x", "parameters": []}}, 400, "parameters", INVALID),
    ("POST", "/projects", {"content": b"name=x", "headers": {"Content-Type": "text/plain"}}, 400, "body", CONTENT_TYPE),
    ("POST", "/projects", {"content": b'{"name": "%s"}' % (b"x" * 5_000_000)}, 413, None, "too-large"),
    ("GET", "/" + "x" * 9000, {}, 414, None, "path-too-long"),
    ("POST", "/auth/api-keys", {"json": {"name": "x", "expiresAt": 0}}, 400, "expiresAt", INVALID),
    ("POST", "/auth/api-keys", {"json": {"name": "x", "expiresAt": "4102444800"}}, 400, "expiresAt", INVALID),
    ("POST", "/auth/api-keys", {"json": {"name": "x", "expiresAt": "soon"}}, 400, "expiresAt", INVALID),
    ("POST", "/auth/api-keys", {"json": {"name": "x", "expiresAt": LATE}}, 400, "expiresAt", INVALID),
    ("POST", "/auth/api-keys", {"json": {"name": "x", "expiresAt": EARLY}}, 400, "expiresAt", INVALID),
    ("POST", "/projects/id/x/jobs/y/completion", {"content": DEEP}, 400, "", INVALID),
    ("POST", "/projects", {"content": b"[" * 1_000_000}, 400, None, "unreadable-request"),
    ("POST", "/categories", {"json": {"name": "x", "visibility": "SECRET"}}, 400, "visibility", INVALID),
    ("POST", "/agents", {"json": {"name": "x", "pipelineYaml": BROKEN}}, 400, "line 3, column 13", INVALID),
    ("POST", "/agents", {"json": {"name": "x", "pipelineYaml": "pipeline: ["}}, 400, "line", INVALID),
    ("POST", "/agents", {"json": {"name": "x", "pipelineYaml": "fetch: {}"}}, 400, "line", INVALID),
    ("POST", "/datasets/query", {"json": {}}, 400, "sql", "missing-field"),
    ("POST", "/datasets/query", {"json": {"sql": "SELECT 1", "limit": 10_001}}, 400, "limit", INVALID),
    ("POST", "/datasets/query", {"json": {"sql": "SELECT 1", "limit": "5"}}, 400, "limit", INVALID),
    ("POST", "/datasets/query", {"json": {"sql": "SELECT 1", "limit": 1.5}}, 400, "limit", INVALID),
    ("POST", "/datasets/query", {"json": {"sql": "SELECT 1", "offset": 1e300}}, 400, None, "query-failed"),
    ("POST", "/datasets/query", {"json": {"sql": "SELECT 1", "offset": -1}}, 400, "offset", INVALID),
    ("POST", "/datasets/query", {"json": {"sql": "DROP TABLE x"}}, 400, None, "read-only"),
    ("POST", "/datasets/query", {"json": {"sql": "SELECT * FROM read_text('/x')"}}, 400, None, "query-refused"),
    ("POST", "/datasets/query", {"json": {"sql": "SELECT * FROM nowhere"}}, 400, None, "unknown-table"),
    ("POST", "/datasets/query?bigNumbers=x", {"json": {"sql": "SELECT 1"}}, 400, "bigNumbers", INVALID),
    ("GET", "/datasets/query/columns", {}, 400, "table", "missing-field"),
    ("GET", "/datasets/query/columns?table=nowhere", {}, 400, None, "unknown-table"),
    ("GET", "/datasets/query/tables?catalog=nowhere", {}, 400, None, "unknown-catalog"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "request_", "status", "where", "code"),
    ERRORS,
    ids=[f"{e[0]} {e[1][:40]} {n}" for n, e in enumerate(ERRORS)],
)
def test_an_error_has_one_shape(
    acme: Api, method: str, path: str, request_: dict[str, Any], status: int, where: str | None, code: str
):
    json = {"headers": {"Content-Type": "application/json"}} if "content" in request_ else {}
    response = acme.call(method, path, **(json | request_))
    body = response.json()
    assert (response.status_code, body["code"]) == (status, status), body
    assert set(body) == {"error", "code", "timestamp", "details"}
    assert all(set(each) == {"path", "message", "code"} for each in body["details"])
    assert body["details"][0]["code"] == code, body
    assert abs(datetime.now(UTC) - datetime.fromisoformat(body["timestamp"])) < timedelta(minutes=1)
    if where is not None:
        assert body["details"][0]["path"].startswith(where), body
    for internal in ("Traceback", "sqlalchemy", "pydantic", "duckdb", "/tmp", str(acme.settings.data)):
        assert internal not in response.text


def test_of_many_problems_the_first_are_told(acme: Api):
    response = acme.call("POST", "/agents", json={"name": "x", "pipelineYaml": f"pipeline: [{'a,' * 900}]"})
    body = response.json()
    assert (response.status_code, len(body["details"])) == (400, 100)
    assert body["error"].startswith("The pipeline has more than 100 problems, the first of them: line 1")


def test_a_whole_number_is_one_in_any_notation(acme: Api):
    body = {"sql": "SELECT 1 AS x", "limit": 1.0, "offset": 0.0}
    assert acme.post("/datasets/query", body) == {"results": [{"x": 1}]}


def test_405_tells_the_methods_that_are_known(acme: Api):
    assert acme.call("DELETE", "/projects").headers["Allow"] == "GET, POST"
    assert acme.call("PATCH", "/projects/a/jobs/b").headers["Allow"] == "GET, PUT, DELETE"


def test_nothing_is_stored_of_an_agent_whose_pipeline_is_wrong(acme: Api):
    before = acme.get("/agents")
    acme.call("POST", "/agents", json={"name": "broken", "pipelineYaml": BROKEN})
    agent = acme.post("/agents", {"name": "kept", "pipelineYaml": PIPELINE})
    assert (
        acme.call("PUT", f"/agents/none/{agent['id']}", json={"name": "new", "pipelineYaml": BROKEN}).status_code == 400
    )
    assert acme.get("/agents") == [*before, agent]


def test_names_that_are_looked_up_are_unique(acme: Api):
    for path in ("/projects", "/categories"):
        acme.post(path, {"name": "taken"})
        assert acme.call("POST", path, json={"name": "taken"}).status_code == 409


def test_a_job_that_cannot_be_executed_says_why(acme: Api):
    project = acme.project("cannot execute")
    without = acme.post(f"/projects/id/{project}/jobs", {"name": "without"})["id"]
    empty = acme.post("/agents", {"name": "empty"})["id"]
    pipeline = (
        "fetch: {url: '${ONE}'}\npipeline:\n  - {stage: extract, args: [{selector: '${TWO}', method: text, as: x}]}\n"
    )
    open_parameters = acme.post("/agents", {"name": "open", "pipelineYaml": pipeline})["id"]
    cases = [
        ({"enabled": False}, 409, "disabled"),
        ({"enabled": True, "agentId": empty}, 409, "no pipeline"),
        ({"agentId": open_parameters}, 400, "ONE"),
    ]
    execute = f"/projects/id/{project}/jobs/{without}/execute"
    assert "no agent" in acme.call("POST", execute).json()["error"]
    for change, status, part in cases:
        acme.put(f"/projects/id/{project}/jobs/{without}", change)
        response = acme.call("POST", execute)
        assert (response.status_code, part in response.text) == (status, True), response.text
    assert "TWO" in str(response.json()["details"])
    assert acme.get(f"/projects/id/{project}/jobs/{without}/executions") == []


def test_a_fault_of_the_service_tells_nothing_of_it(acme: Api):
    app = create_app(acme.settings)

    @app.get("/fault")
    def fault() -> None:
        raise RuntimeError("the secret of the service")

    with running(app) as url:
        response = httpx.get(f"{url}/fault", timeout=30)
    assert response.status_code == 500
    assert [each["code"] for each in response.json()["details"]] == ["internal-error"]
    assert "secret" not in response.text


def test_an_error_may_speak_of_what_is_no_text(acme: Api):
    app = create_app(acme.settings)

    @app.get("/odd")
    def odd() -> None:
        raise BadInput("There is no '\ud800'.", [Detail("\udfff", "not '\0'")])

    with running(app) as url:
        response = httpx.get(f"{url}/odd", timeout=30)
    assert (response.status_code, response.json()["error"]) == (400, "There is no '?'.")
    assert response.json()["details"] == [{"path": "?", "message": "not '\ufffd'", "code": "invalid-value"}]
