"""A driver of an incremental run is killed: no page is lost, none is written twice, and none is known too early."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Job, Service, wait_until
from tests.support.site import Site

pytestmark = pytest.mark.long

PIPELINE = """\
spindle: {{incremental: true}}
fetch: {{url: "{url}/"}}
pipeline:
  - {{stage: wgetJoin, args: [a]}}
  - {{stage: extract, args: [{{selector: h1, as: name}}]}}
"""
PAGES = {f"/{name}": f"<h1>{name}</h1>" for name in "abcd"}


@pytest.fixture(scope="module")
def service(expendable: Service) -> Service:
    return expendable


@pytest.mark.parametrize(
    "retries",
    [pytest.param(1, id="retried by itself"), pytest.param(0, id="executed anew", marks=pytest.mark.variant)],
)
def test_pages_of_a_killed_run_are_written_once(service: Service, web: Site, retries: int) -> None:
    job = service.make_job(PIPELINE.format(url=web.serve({"/": list_links("ab"), **PAGES})))
    with service.client() as client:
        assert client.put(job.path, json={"maxRetries": retries, "retryBackoffSeconds": 1}).is_success
    complete(service, job, service.execute(job))
    web.pages["/"] = list_links("abcd")
    web.requests.clear()
    web.hold({"/d"})
    killed = service.execute(job)
    wait_until(lambda: web.requests["/c"] and web.requests["/d"], PATIENCE_SECONDS)
    os.kill(find_driver(service, killed), signal.SIGKILL)
    if retries:
        wait_until(
            lambda: len(service.get(f"{job.path}/executions/{killed}/attempts")) == 2,
            PATIENCE_SECONDS,
            every=POLL_SECONDS,
        )
        web.hold(())
        complete(service, job, killed)
    else:
        wait_until(lambda: service.status(job, killed)["status"] == "FAILED", PATIENCE_SECONDS, every=POLL_SECONDS)
        web.hold(())
        assert read_names(service, job) == ["a", "b"]
        complete(service, job, service.execute(job))
    assert read_names(service, job) == ["a", "b", "c", "d"]
    assert (web.requests["/a"], web.requests["/b"]) == (0, 0), "their rows were published before"
    web.requests.clear()
    complete(service, job, service.execute(job))
    assert read_names(service, job) == ["a", "b", "c", "d"]
    assert {path for path, number in web.requests.items() if number} <= {"/"}, "all pages are known"


def list_links(names: str) -> str:
    return "".join(f"<a href=/{name}>{name}</a>" for name in names)


def complete(service: Service, job: Job, execution: str) -> None:
    ended = service.wait(job, execution, seconds=PATIENCE_SECONDS)
    assert ended["status"] == "COMPLETED", ended


def find_driver(service: Service, execution: str) -> int:
    (pidfile,) = (service.data / "drivers").glob(f"*.{execution}.1")
    return int(pidfile.read_text())


def read_names(service: Service, job: Job) -> list[str]:
    dataset = service.get(job.path)["outputDatasetId"]
    query = {"sql": "SELECT name FROM output ORDER BY name"}
    return [row["name"] for row in service.post(f"{job.path}/datasets/{dataset}/query", query)["rows"]]
