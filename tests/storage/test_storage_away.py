"""Executions while their storage breaks connections and is away: each succeeds or fails whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Api, start_server
from tests.support.faulty_proxy import Fault, FaultyProxy
from tests.support.s3 import Bucket
from tests.support.service import POLL_SECONDS, Job, Service, wait_until
from tests.support.site import serve_site

pytestmark = pytest.mark.long
FORMATS = ("csv", "parquet")
PIPELINE = """
fetch: {{url: "{site}/"}}
pipeline:
  - {{stage: wgetJoin, args: [a]}}
  - {{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}
"""
PAGES = {"/": "<a href=1>1</a><a href=2>2</a>", "/1": "<h1>one</h1>", "/2": "<h1>two</h1>"}


@pytest.fixture
def away(bucket: Bucket, proxy: FaultyProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """The API alone, which waits for its storage less long."""
    storage = f"{bucket.address}/{tmp_path.name}"  # the bucket itself is that of `on_s3`
    for name, value in {**bucket.environment, "SPINDLE_STORAGE": storage, "SPINDLE_S3_ENDPOINT": proxy.url}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("core.infra.storage.s3.ANSWER_SECONDS", 1)
    monkeypatch.setattr("core.data.files.process.START_SECONDS", 5)
    with start_server(tmp_path / "data") as server:
        yield server.caller("away")


@pytest.fixture
def job(on_s3: Service) -> Iterator[Job]:
    with serve_site() as site:
        yield on_s3.make_job(PIPELINE.format(site=site.serve(PAGES)))


def list_datasets(service: Service, job: Job) -> list[dict[str, Any]]:
    return service.get(f"/datasets?projectId={job.project_id}")


def get_code(service: Service, job: Job, execution: str) -> str:
    return service.get(f"{job.path}/executions/{execution}")["errorCode"]


def test_lost_connections_are_not_noticed(on_s3: Service, proxy: FaultyProxy, job: Job) -> None:
    proxy.fail("reset", "", 6)
    status = on_s3.wait(job, on_s3.execute(job))
    assert status["status"] == "COMPLETED", status
    assert proxy.hits == 6
    assert [each["rowCount"] for each in list_datasets(on_s3, job)] == [2]


def test_a_run_whose_storage_is_away_fails_and_the_next_one_succeeds(
    on_s3: Service, proxy: FaultyProxy, job: Job
) -> None:
    proxy.fail("reset", "PUT.*/output/")
    execution = on_s3.execute(job)
    status = on_s3.wait(job, execution, seconds=240)
    assert (status["status"], get_code(on_s3, job, execution)) == ("FAILED", "dependency-unavailable"), status
    assert "cannot be reached" in status["errorMessage"]
    assert proxy.hits
    assert list_datasets(on_s3, job) == []
    proxy.fail("refused")
    health = f"http://127.0.0.1:{on_s3.port}/api/health"
    with on_s3.client() as client:
        for answer in (client.get(health), client.post("/datasets/upload", files={"file": ("a.csv", b"n\n1\n")})):
            assert (answer.status_code, answer.json()["details"][0]["code"]) == (503, "storage-unavailable")
    assert list_datasets(on_s3, job) == []
    proxy.fail(None)
    with on_s3.client() as client:
        wait_until(lambda: client.get(health).is_success, 120, every=POLL_SECONDS)
    on_s3.complete(job)
    assert [each["rowCount"] for each in list_datasets(on_s3, job)] == [2]


@pytest.mark.parametrize("fault", ["refused", "reset", "silent"])
def test_downloads_and_health_say_that_the_storage_is_away(away: Api, proxy: FaultyProxy, fault: Fault) -> None:
    made = away.call("POST", "/datasets/upload", files={"file": ("a.csv", b"n\n1\n")}, data={"name": fault}).json()
    proxy.fail(fault)
    for path in ("/api/health", *(f"/datasets/{made['id']}/download?format={format_}" for format_ in FORMATS)):
        answer = away.call("GET", path)
        assert (answer.status_code, answer.json()["details"][0]["code"]) == (503, "storage-unavailable"), path
        assert int(answer.headers["Retry-After"]) > 0
    proxy.fail(None)
    wait_until(lambda: away.get("/api/health")["status"] == "UP", 60, every=POLL_SECONDS)
    assert away.call("GET", f"/datasets/{made['id']}/download").text.split() == ["n", "1"]
