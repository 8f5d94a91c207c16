"""HEAD answers with the headers of GET, except where a GET acts."""

from __future__ import annotations

import pytest

from tests.api.operations import OPERATIONS
from tests.support.api import Api, Job


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
