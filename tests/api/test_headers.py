"""Headers of answers: those of HEAD, and the id of a request."""

from __future__ import annotations

import re

import pytest

from tests.api.operations import OPERATIONS
from tests.support.api import Api, Job
from tests.support.service import PATIENCE_SECONDS, wait_until


def test_head_has_the_status_and_the_headers_of_get(acme: Api, job: Job) -> None:
    for path, status in (("/projects", 200), (job.path, 200), ("/projects/unknown", 404), ("/api/health", 200)):
        head, get = acme.call("HEAD", path), acme.call("GET", path)
        assert (head.status_code, get.status_code, head.content) == (status, status, b""), path
        assert head.headers["Content-Length"] == get.headers["Content-Length"]
        assert head.headers["Content-Type"] == get.headers["Content-Type"]
    assert acme.client.head("/api/svc/api/projects").status_code == 401
    assert acme.client.head("/livez").status_code == 200


def test_head_works_for_every_documented_get_that_does_not_act(acme: Api) -> None:
    paths = {operation.path: operation for operation in OPERATIONS if operation.method.upper() == "GET"}
    refused = {path for path in paths if acme.client.head(path.replace("{", "").replace("}", "")).status_code == 405}
    assert refused == {path for path in paths if "/svc/api/package/" in path}
    assert acme.call("HEAD", "/package/export/all").headers["Allow"] == "GET"


@pytest.mark.long
def test_head_of_a_stream_ends_at_once(acme: Api, job: Job) -> None:
    made = acme.call("POST", "/datasets/upload", files={"file": ("rows.csv", b"id\n1\n")}).json()
    for path in (f"/datasets/{made['id']}/download", f"/projects/id/{job.project_id}/events"):
        head = acme.call("HEAD", path, timeout=20)
        assert (head.status_code, head.content) == (200, b""), path
    stored = acme.call("HEAD", f"/datasets/{made['id']}/download?format=parquet")
    whole = acme.call("GET", f"/datasets/{made['id']}/download?format=parquet")
    assert (stored.headers["Content-Length"], stored.headers["ETag"]) == (
        str(len(whole.content)),
        whole.headers["ETag"],
    )


@pytest.mark.parametrize("given", ["client-7f/3:a=b+c.d", "x" * 128])
def test_the_id_of_a_client_is_answered_and_logged(acme: Api, given: str, capfd: pytest.CaptureFixture[str]) -> None:
    answer = acme.call("GET", "/projects", headers={"X-Request-ID": given})
    assert answer.headers["x-request-id"] == given
    printed = list[str]()
    wait_until(lambda: printed.append(capfd.readouterr().out) or given in "".join(printed), PATIENCE_SECONDS)


@pytest.mark.parametrize("given", [None, "", "x" * 129, "two words", 'a"b'])
def test_another_request_has_a_new_one(acme: Api, given: str | None) -> None:
    headers = {} if given is None else {"X-Request-ID": given}
    answers = [acme.call("GET", "/projects/id/nothing", headers=headers) for _ in range(2)]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in ids)
    assert ids[0] != ids[1]


def test_a_refused_request_has_one_too(acme: Api) -> None:
    answer = acme.client.get("/api/svc/api/projects", headers={"X-Request-ID": "mine"})
    assert (answer.status_code, answer.headers["x-request-id"]) == (401, "mine")
