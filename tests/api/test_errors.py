"""Every error has the one shape, names a field or line and a code, and reveals nothing internal."""

from __future__ import annotations

import json
import os
import re
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.app import create_app
from api.kit import middleware
from core.errors import CODES, BadInput, Detail
from pipelines.errors import PROBLEM_CODES
from tests.support.api import BASE, Api, Job, Server, read_code, running

BROKEN = "pipeline:\n  - {stage: extract, args: [{selector: h1, method: text}]}\n  - {stage: wgetJion, args: [a]}\n"

# method, path, request; errors.txt has the answers in the same order
GOLDEN = Path(__file__).with_name("errors.txt")
EARLY, LATE = "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"  # in UTC outside of what a date can be
DEEP = b'{"executionId": "x", "status": "RUNNING", "metrics": {"a": ' + b"[" * 900 + b"]" * 900 + b"}}"
REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/nothing", {}),
    ("GET", "/projects/", {}),
    ("PATCH", "/projects", {}),
    ("GET", "/api", {}),
    ("GET", "/api/svc", {}),
    ("OPTIONS", "/projects", {}),
    ("POST", "/projects/id/x/webhooks/y", {}),
    ("GET", "/projects?cursor=%00", {}),
    ("GET", "/projects/id/" + "x" * 7000, {}),
    ("GET", "/projects/id/%ff%fe", {}),
    ("GET", "/projects/id/unknown", {}),
    ("GET", "/projects/nobody", {}),
    ("GET", "/projects/id/%00", {}),
    ("GET", "/projects?limit=0", {}),
    ("GET", "/projects?limit=x", {}),
    ("POST", "/projects", {"content": b"{"}),
    ("POST", "/projects", {"content": b"\xff\xfe"}),
    ("POST", "/projects", {"content": b"[" * 100_000}),
    ("POST", "/projects", {"content": b'{"name": "x", "parameters": {"a": NaN}}'}),
    ("POST", "/projects", {"content": b'{"name": %s}' % (b"9" * 5000)}),
    ("POST", "/projects", {"content": b"<x/>", "headers": {"Content-Type": "text/xml"}}),
    ("POST", "/projects", {"data": {"name": "x"}}),
    ("POST", "/projects", {"files": {"name": b"x"}}),
    ("POST", "/projects/id/x/jobs/y/execute?queue=maybe", {}),
    ("POST", "/projects/id/x/jobs/y/execute", {"content": b"{"}),
    ("POST", "/projects/id/x/jobs/y/execute", {"headers": {"Idempotency-Key": "x" * 256}}),
    ("PUT", "/projects/id/x", {"json": {}, "headers": {"If-Match": "x" * 5000}}),
    ("GET", "/projects/id/x/events", {"headers": {"Last-Event-ID": "one"}}),
    ("POST", "/projects", {"content": b""}),
    ("POST", "/projects", {"json": []}),
    ("POST", "/projects", {"json": "x"}),
    ("POST", "/projects", {"json": {}}),
    ("POST", "/projects", {"json": {"name": 1}}),
    ("POST", "/projects", {"json": {"name": None}}),
    ("POST", "/projects", {"json": {"name": " "}}),
    ("POST", "/projects", {"json": {"name": "test"}}),
    ("POST", "/projects", {"json": {"name": "x" * 300}}),
    ("POST", "/projects", {"json": {"name": "a\0b"}}),
    ("POST", "/projects", {"json": {"name": "x", "enabled": "yes"}}),
    ("POST", "/projects", {"json": {"name": "x", "enabled": 1}}),
    ("POST", "/projects", {"json": {"name": "x", "cronSchedule": "at five"}}),
    ("POST", "/projects", {"json": {"name": "x", "parameters": []}}),
    ("POST", "/projects", {"content": b"name=x", "headers": {"Content-Type": "text/plain"}}),
    ("POST", "/projects", {"content": b'{"name": "%s"}' % (b"x" * 5_000_000)}),
    ("GET", "/" + "x" * 9000, {}),
    ("POST", "/auth/api-keys", {"json": {"name": "x", "expiresAt": 0}}),
    ("POST", "/auth/api-keys", {"json": {"name": "x", "expiresAt": "4102444800"}}),
    ("POST", "/auth/api-keys", {"json": {"name": "x", "expiresAt": "soon"}}),
    ("POST", "/auth/api-keys", {"json": {"name": "x", "expiresAt": LATE}}),
    ("POST", "/auth/api-keys", {"json": {"name": "x", "expiresAt": EARLY}}),
    ("POST", "/projects/id/x/jobs/y/completion", {"content": DEEP}),
    ("POST", "/projects", {"content": b"[" * 1_000_000}),
    ("POST", "/categories", {"json": {"name": "x", "visibility": "SECRET"}}),
    ("POST", "/agents", {"json": {"name": "x", "pipelineYaml": BROKEN}}),
    ("POST", "/agents", {"json": {"name": "x", "pipelineYaml": "pipeline: ["}}),
    ("POST", "/agents", {"json": {"name": "x", "pipelineYaml": "fetch: {}"}}),
    ("POST", "/datasets/query", {"json": {}}),
    ("POST", "/datasets/query", {"json": {"sql": "SELECT 1", "limit": 10_001}}),
    ("POST", "/datasets/query", {"json": {"sql": "SELECT 1", "limit": "5"}}),
    ("POST", "/datasets/query", {"json": {"sql": "SELECT 1", "limit": 1.5}}),
    ("POST", "/datasets/query", {"json": {"sql": "SELECT 1", "offset": 1e300}}),
    ("POST", "/datasets/query", {"json": {"sql": "SELECT 1", "offset": -1}}),
    ("POST", "/datasets/query", {"json": {"sql": "DROP TABLE x"}}),
    ("POST", "/datasets/query", {"json": {"sql": "SELECT * FROM read_text('/etc/passwd')"}}),
    ("POST", "/datasets/query", {"json": {"sql": "SELECT * FROM nowhere"}}),
    ("POST", "/datasets/query?bigNumbers=x", {"json": {"sql": "SELECT 1"}}),
    ("GET", "/datasets/query/columns", {}),
    ("POST", "/datasets/query", {"json": {"sql": "SELECT 1", "format": "csv"}}),
    ("POST", "/projects/x/jobs/y/datasets/z/query", {"json": {"sql": "", "format": "csv"}}),
    ("GET", "/datasets/query/columns?table=nowhere", {}),
    ("GET", "/projects?cursor=garbage", {}),
    ("GET", "/datasets?cursor=01a1fe8d", {}),
    ("POST", "/cloud-credentials", {"json": {"provider": "AWS", "apiKey": "\0"}}),
    ("POST", "/cloud-credentials", {"json": {"provider": "AWS", "secretAccessKey": "x" * 99_999}}),
    ("POST", "/projects", {"json": {"name": "x", "cronSchedule": "\0"}}),
    ("GET", "/datasets/query/tables?catalog=nowhere", {}),
]  # fmt: skip


@pytest.mark.duckdb
def test_errors_have_one_shape_and_the_wording_of_the_golden_file(acme: Api):
    """`UPDATE_ERRORS=1 pytest` writes the file."""
    lines = [describe_error(acme, *request) for request in REQUESTS]
    if os.environ.get("UPDATE_ERRORS"):
        GOLDEN.write_text("\n".join(lines) + "\n")
    assert lines == re.split(r"\n(?! )", GOLDEN.read_text().rstrip("\n"))


def describe_error(acme: Api, method: str, path: str, request: dict[str, Any]) -> str:
    """Send the request, check the shape of the error, and return it as a line of the golden file."""
    typed = {"headers": {"Content-Type": "application/json"}} if "content" in request else {}
    asked_at = datetime.now(UTC)
    response = acme.call(method, path, **(typed | request))
    body = response.json()
    assert body["code"] == response.status_code, body
    assert set(body) == {"error", "code", "timestamp", "details"}
    assert all(set(each) == {"path", "message", "code"} for each in body["details"])
    assert body["timestamp"].endswith("Z")
    assert asked_at <= datetime.fromisoformat(body["timestamp"]) <= datetime.now(UTC)
    for internal in ("Traceback", "sqlalchemy", "pydantic", "duckdb", "/tmp", str(acme.settings.data)):
        assert internal not in response.text
    first = body["details"][0]
    assert first["code"] in CODES or path == "/agents", first  # a pipeline's problems have their own codes
    answer = f"{response.status_code} {first['code']} [{first['path']}] {body['error']}"
    return f"{method} {path[:60]} {list(request.values()) or ''}"[:110].rstrip() + f"\n    {answer}"


def test_codes_of_errors_are_documented():
    """Codes are literals in core and api, so that their list in core.errors stays complete."""
    files = [file for room in ("core", "api") for file in Path(room).rglob("*.py")]
    literals = {code for file in files for code in re.findall(r'\bcode="([a-z-]+)"', file.read_text())}
    assert literals <= CODES.keys() | PROBLEM_CODES.keys()


def test_a_cursor_of_integers_is_one_of_the_database(acme: Api):
    path = f"{acme.job('numbered').path}/tasks?limit=1&cursor="
    assert acme.call("GET", f"{path}999999999").status_code == 200
    for cursor in ("9999999999", "-1", "1.5", "x"):
        assert acme.call("GET", f"{path}{cursor}").status_code == 400, cursor


def test_the_first_of_many_problems_are_listed(acme: Api):
    response = acme.call("POST", "/agents", json={"name": "x", "pipelineYaml": f"pipeline: [{'a,' * 900}]"})
    body = response.json()
    assert (response.status_code, len(body["details"])) == (400, 100)
    assert body["error"].startswith("The pipeline has more than 100 problems, the first of them: line 1")


def test_a_whole_number_is_one_in_any_notation(acme: Api):
    body = {"sql": "SELECT 1 AS x", "limit": 1.0, "offset": 0.0}
    assert acme.post("/datasets/query", body) == {"results": [{"x": 1}]}


def test_a_body_that_stalls_is_given_up(acme: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(middleware, "STALL_SECONDS", 0.3)
    url = acme.client.base_url
    head = f"POST {BASE}/projects HTTP/1.1\r\nHost: x\r\nX-API-Key: {acme.key}\r\nContent-Length: 20\r\n\r\n{{"
    with socket.create_connection((url.host, url.port or 80), timeout=10) as connection:
        connection.sendall(head.encode())
        answer = b"".join(iter(lambda: connection.recv(4096), b""))  # until the service closes the connection
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["details"][0]["code"] == "request-timeout"


def test_405_names_the_allowed_methods(acme: Api):
    assert acme.call("DELETE", "/projects").headers["Allow"] == "GET, HEAD, POST"
    assert acme.call("PATCH", "/projects/a/jobs/b").headers["Allow"] == "GET, HEAD, PUT, DELETE"


def test_the_language_model_of_a_project_is_checked_when_it_is_written(acme: Api):
    refused = acme.call("POST", "/projects", json={"name": "models", "parameters": {"model": {"maxCalls": 0}}})
    (detail,) = refused.json()["details"]
    assert (refused.status_code, detail["path"]) == (400, "parameters")
    assert "model.maxCalls" in detail["message"]
    for model in ({"provider": "openai", "maxCost": 0.5}, "a plain value"):
        project = acme.post("/projects", {"name": f"models {model}", "parameters": {"model": model}})
        assert project["parameters"] == {"model": model}


def test_jobs_of_a_disabled_project_are_not_executed(acme: Api, job: Job):
    failed, project = job.execute(), f"/projects/id/{job.project_id}"
    job.report(failed, "FAILED")
    task = acme.post(f"{job.path}/tasks", {"name": "by hand"})["id"]
    acme.put(project, {"enabled": False})
    for path in ("execute", f"executions/{failed}/retry", f"tasks/{task}/start"):
        refused = acme.call("POST", f"{job.path}/{path}")
        assert read_code(refused) == (409, "disabled")
    acme.put(project, {"enabled": True})
    assert job.execute()


@pytest.mark.long
def test_a_fault_of_the_service_leaks_no_internals(acme: Api):
    app = create_app(acme.settings)

    @app.get("/fault")
    def fault() -> None:
        raise RuntimeError("the secret of the service")

    with running(app) as url:
        response = httpx.get(f"{url}/fault", timeout=30)
    assert response.status_code == 500
    assert [each["code"] for each in response.json()["details"]] == ["internal-error"]
    assert "secret" not in response.text


@pytest.mark.long
def test_an_error_may_contain_bytes_that_are_no_text(acme: Api):
    app = create_app(acme.settings)

    @app.get("/odd")
    def odd() -> None:
        raise BadInput("There is no '\ud800'.", [Detail("\udfff", "not '\0'")])

    with running(app) as url:
        response = httpx.get(f"{url}/odd", timeout=30)
    assert (response.status_code, response.json()["error"]) == (400, "There is no '?'.")
    assert response.json()["details"] == [{"path": "?", "message": "not '\ufffd'", "code": "invalid-value"}]


def test_a_browser_without_a_key_gets_a_page_that_says_how(server: Server, job: Job) -> None:
    """Links of the Dagster UI lead here; clients get the usual body."""
    address = f"{BASE}{job.path}/executions?a='<b>"
    page = server.client.get(address, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (page.status_code, page.headers["Content-Type"]) == (401, "text/html; charset=utf-8")
    assert "X-API-Key: $(cat .spindle/admin-key)" in page.text.replace("&quot;", '"')
    assert f"{job.path}/executions?a=" in page.text
    assert "<b>" not in page.text.replace("<b>Authorize</b>", "")
    assert "href='/api/docs'" in page.text
    for headers in ({}, {"Accept": "text/html", "X-API-Key": "sk_wrong"}):
        refused = server.client.get(address, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (401, 401)
