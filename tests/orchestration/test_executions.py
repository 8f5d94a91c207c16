"""Executions on a whole Spindle: given rows, incremental crawls, screenshots, and what one job loads of another."""

from __future__ import annotations

from hashlib import sha256

import pytest

from tests.orchestration.test_assets import load_asset, read_metadata
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Job, Json, Service, wait_until
from tests.support.site import GatedSite, Site

PIPELINE = """\
pipeline:
  - {stage: load_rows}
  - {stage: wget, args: [$url]}
  - {stage: extract, args: [{selector: h1, as: name}]}
"""


@pytest.mark.long
def test_an_execution_has_the_rows_of_its_request(service: Service, web: Site) -> None:
    url = web.serve({"/a": "<h1>Apple</h1>", "/b": "<h1>Beet</h1>"})
    job = service.make_job(PIPELINE)
    execution = service.execute(job, {"rows": [f"{url}/b", {"url": f"{url}/a", "sku": 7}]})
    assert service.wait(job, execution, seconds=120)["status"] == "COMPLETED"
    record = service.get(f"{job.path}/executions/{execution}")
    assert record["givenRows"] == 2
    query = {"sql": "SELECT sku, name FROM output ORDER BY name"}
    rows = service.post(f"{job.path}/datasets/{record['datasetId']}/query", query)["rows"]
    assert rows == [{"sku": 7, "name": "Apple"}, {"sku": None, "name": "Beet"}]
    log = "\n".join(service.get(f"{job.path}/executions/{execution}/logs")["logs"])
    assert f"{url}/a" not in log
    wait_until(lambda: service.runs(execution)[0]["status"] == "SUCCESS", PATIENCE_SECONDS, every=POLL_SECONDS)
    metadata = read_metadata(load_asset(service, job)["assetMaterializations"][0])
    assert metadata["given rows"]["intValue"] == 2


INCREMENTAL_PIPELINE = """\
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
    job = service.make_job(INCREMENTAL_PIPELINE.format(url=url, incremental="{keys: [name], recheck: PT0.001S}"))
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
    job = service.make_job(INCREMENTAL_PIPELINE.format(url=url, incremental="true"))
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


SCREENSHOTS_PIPELINE = """\
fetch:
  url: "{url}"
  traces:
    - {{action: visit, params: {{cooldown: 0}}}}
    - {{action: snapshot}}
    - {{action: screenshot, params: {{as: picture}}}}
    - {{action: snapshot}}
pipeline:
  - {{stage: extract, args: [{{selector: h1, as: title}}]}}
spindle: {{keepColumns: [_status]}}
"""
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.long
def test_each_snapshot_is_a_row_and_a_screenshot_a_column_that_queries_give(service: Service, site: GatedSite) -> None:
    site.open()
    job = service.make_job(SCREENSHOTS_PIPELINE.format(url=site.url))
    ended = service.wait(job, service.execute(job), seconds=300)
    assert ended["status"] == "COMPLETED", ended
    [dataset] = (each for each in service.get("/datasets") if each["jobId"] == job.job_id)
    sql = "SELECT title, _status, picture FROM output ORDER BY picture NULLS FIRST"
    before, after = service.post(f"{job.path}/datasets/{dataset['id']}/query", {"sql": sql})["rows"]
    assert before == {"title": "Gate", "_status": 200, "picture": None}
    assert (after["title"], after["_status"]) == ("Gate", 200)
    with service.client() as client:
        file = client.get(f"{job.path}/executions/{ended['executionId']}/{after['picture']}")
    assert file.content.startswith(PNG)
    assert after["picture"] == f"files/{sha256(file.content).hexdigest()}"


SAVING = """\
fetch: {{url: "{url}"}}
pipeline:
  - {{stage: wgetJoin, args: ["ul li a"]}}
  - {{stage: extract, args: [{{selector: h1, as: title}}]}}
  - {{stage: "python_row_transform:shout", args: {{mark: "!"}}}}
  - {{stage: save_parquet, args: ["titles of today"]}}
  - {{stage: limit, args: [1]}}
"""
LOADING = """\
pipeline:
  - {stage: load_parquet, args: ["titles of today"]}
  - {stage: dedup, args: [place]}
"""
SHOUT = """
from typing import TypedDict

class Loud(TypedDict):
    place: int
    title: str

def shout(row, *, mark) -> Loud:
    return {"place": row["_ordinal"][1], "title": row["title"].upper() + mark}
"""


@pytest.mark.long
def test_a_job_loads_the_output_of_another_jobs_python_transform(service: Service, site: GatedSite) -> None:
    site.open()
    saving = service.make_job(SAVING.format(url=site.url))
    agent = service.get(saving.path)["agentId"]
    service.post(f"/agents/{agent}/python-extensions", {"extensionType": "row_transform", "function": SHOUT})
    loading = beside(service, saving, LOADING)
    assert rows(service, saving) == [{"place": 1, "title": "GATE!"}]
    assert rows(service, loading) == [{"place": 2, "title": "GATE!"}, {"place": 1, "title": "GATE!"}]


def rows(service: Service, job: Job) -> list[Json]:
    """What an execution of the job gives."""
    service.complete(job, seconds=120)
    (dataset,) = (each for each in service.get("/datasets") if each["jobId"] == job.job_id)
    query = {"sql": "SELECT * FROM output ORDER BY place DESC"}
    return service.post(f"{job.path}/datasets/{dataset['id']}/query", query)["rows"]


def beside(service: Service, job: Job, pipeline: str) -> Job:
    """Another job in the project of `job`."""
    agent = service.post("/agents", {"name": f"beside {job.job_id}", "pipelineYaml": pipeline})["id"]
    made = service.post(f"/projects/id/{job.project_id}/jobs", {"name": "loaded", "agentId": agent})
    return Job(job.project_id, made["id"])
