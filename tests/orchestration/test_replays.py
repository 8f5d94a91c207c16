"""Executions over the stored pages of an earlier one, and their export as an archive."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from pipelines.page_cache.warc import ArchiveReading, read_archive
from tests.support.scripted_site import serve_scripted_site
from tests.support.service import Service
from tests.support.site import Site

PIPELINE = """\
fetch: {{url: "{url}/"}}
pipeline:
  - {{stage: wgetJoin, args: [a]}}
  - {{stage: extract, args: [{{selector: {selector}, as: name}}]}}
"""


@pytest.mark.gate
@pytest.mark.long
def test_a_changed_pipeline_has_the_pages_of_an_earlier_execution(service: Service, web: Site) -> None:
    url = web.serve({"/": "<a href=/a>a</a>", "/a": "<h1>Apple</h1><b>red</b>"})
    job = service.make_job(PIPELINE.format(url=url, selector="h1"))
    first = service.complete(job, seconds=120)
    web.serve({})
    changed = service.make_job(PIPELINE.format(url=url, selector="b"))
    second = service.execute(changed, {"pagesOf": first})
    assert service.wait(changed, second, seconds=120)["status"] == "COMPLETED"
    assert service.get(f"{changed.path}/executions/{second}")["pagesOf"] == first
    assert not web.requests
    dataset = service.get(changed.path)["outputDatasetId"]
    query = {"sql": "SELECT name FROM output"}
    assert service.post(f"{changed.path}/datasets/{dataset}/query", query)["rows"] == [{"name": "red"}]
    for path in (f"{job.path}/executions/{first}", f"{changed.path}/executions/{second}"):
        with service.client() as client:
            content = client.get(f"{path}/pages").content
        reading = ArchiveReading()
        pages = [page.url for _, page in read_archive(BytesIO(content), reading, 10_000)]
        assert (sorted(pages), reading.problem) == ([f"{url}/", f"{url}/a"], None)
    with service.client() as client:
        unknown = client.post(f"{job.path}/execute", json={"pagesOf": "nothing"})
    assert (unknown.status_code, unknown.json()["details"][0]["code"]) == (400, "unknown-execution")


@pytest.mark.long
def test_the_json_that_a_page_has_loaded_is_among_the_pages_of_an_execution(service: Service) -> None:
    text = (Path(__file__).parents[2] / "examples/json-listing.yaml").read_text()
    with serve_scripted_site() as site:
        text = text.replace("${SHOP}", site.url)
        job = service.make_job(text)
        first = service.execute(job)
        assert service.wait(job, first, seconds=120)["status"] == "COMPLETED"
        site.requests.clear()
        changed = service.make_job(text.replace("as: name", "as: title"))
        second = service.execute(changed, {"pagesOf": first})
        record = service.wait(changed, second, seconds=120)
        assert (record["status"], site.requests) == ("COMPLETED", {})
    dataset = service.get(changed.path)["outputDatasetId"]
    query = {"sql": "SELECT count(DISTINCT title) AS titles FROM output"}
    assert service.post(f"{changed.path}/datasets/{dataset}/query", query)["rows"] == [{"titles": 30}]
    with service.client() as client:
        content = client.get(f"{job.path}/executions/{first}/pages").content
    pages = [page for _, page in read_archive(BytesIO(content), ArchiveReading(), 10_000) if page.status == 200]
    assert sorted(page.url for page in pages) == [f"{site.url}/api/items?page={number}" for number in (1, 2, 3)]


@pytest.mark.long
def test_a_picture_is_among_the_pages_of_an_execution(service: Service) -> None:
    text = """
fetch: {url: "SHOP/login", traces: [{action: screenshot, params: {as: picture}}]}
pipeline: [{stage: extract, args: [{selector: title, as: title}]}]
"""
    with serve_scripted_site() as site:
        job = service.make_job(text.replace("SHOP", site.url))
        first = service.execute(job)
        assert service.wait(job, first, seconds=120)["status"] == "COMPLETED"
        site.requests.clear()
        second = service.execute(job, {"pagesOf": first})
        record = service.wait(job, second, seconds=120)
        assert (record["status"], site.requests) == ("COMPLETED", {})
    dataset = service.get(job.path)["outputDatasetId"]
    [row] = service.post(f"{job.path}/datasets/{dataset}/query", {"sql": "SELECT picture FROM output"})["rows"]
    with service.client() as client:
        picture = client.get(f"{job.path}/executions/{second}/{row['picture']}")
    assert picture.content.startswith(b"\x89PNG")
