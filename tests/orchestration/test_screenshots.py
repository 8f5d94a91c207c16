"""What the browser makes of a page, over REST: rows of a trace, and the screenshot among their columns."""

from __future__ import annotations

from hashlib import sha256

import pytest

from tests.support.service import Service
from tests.support.site import GatedSite

PIPELINE = """\
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
    job = service.make_job(PIPELINE.format(url=site.url))
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
