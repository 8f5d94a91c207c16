"""Incremental crawls of the service: executions one after another, and a reset."""

from __future__ import annotations

import pytest

from tests.support.service import Job, Json, Service
from tests.support.site import Site

PIPELINE = """\
spindle: {{incremental: {incremental}}}
fetch: {{url: "{url}/"}}
pipeline:
  - {{stage: wgetJoin, args: [a]}}
  - {{stage: extract, args: [{{selector: h1, as: name}}, {{selector: b, as: price}}]}}
"""


def execute(service: Service, job: Job) -> Json:
    execution = service.complete(job, seconds=120)
    return service.get(f"{job.path}/executions/{execution}/metrics")


def read_rows(service: Service, job: Job) -> list[Json]:
    dataset = service.get(job.path)["outputDatasetId"]
    query = {"sql": "SELECT name, price FROM output ORDER BY name"}
    return service.post(f"{job.path}/datasets/{dataset}/query", query)["rows"]


@pytest.mark.gate
@pytest.mark.long
def test_rows_of_changed_pages_are_merged_until_a_reset(service: Service, web: Site) -> None:
    pages = {f"/{name}": f"<h1>{name}</h1><b>1</b>" for name in "ab"}
    url = web.serve({"/": "<a href=/a>a</a>", **pages})
    job = service.make_job(PIPELINE.format(url=url, incremental="{keys: [name], recheck: PT0.001S}"))
    execute(service, job)
    assert len(read_rows(service, job)) == 1
    web.pages |= {"/": "<a href=/a>a</a><a href=/b>b</a>", "/a": "<h1>a</h1><b>2</b>"}
    execute(service, job)
    found = read_rows(service, job)
    assert found == [{"name": "a", "price": "2"}, {"name": "b", "price": "1"}]
    web.requests.clear()
    execute(service, job)
    assert read_rows(service, job) == found
    service.post(f"{job.path}/reset", {})
    execute(service, job)
    assert read_rows(service, job) == found


@pytest.mark.gate
@pytest.mark.long
def test_a_restore_forgets_the_pages_that_came_after(service: Service, web: Site) -> None:
    pages = {f"/{name}": f"<h1>{name}</h1><b>1</b>" for name in "ab"}
    url = web.serve({"/": "<a href=/a>a</a>", **pages})
    job = service.make_job(PIPELINE.format(url=url, incremental="true"))
    execute(service, job)
    web.pages |= {"/": "<a href=/a>a</a><a href=/b>b</a>"}
    execute(service, job)
    found = read_rows(service, job)
    assert [row["name"] for row in found] == ["a", "b"]
    dataset = service.get(job.path)["outputDatasetId"]
    service.post(f"/datasets/{dataset}/versions/1/restore", {})
    assert [row["name"] for row in read_rows(service, job)] == ["a"]
    web.requests.clear()
    execute(service, job)
    assert read_rows(service, job) == found
    assert (web.requests["/b"], web.requests["/a"]) == (1, 0), "version 1 knows the page /a"
