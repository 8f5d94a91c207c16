"""What one job makes with its agent's own Python and saves is what another job loads by name."""

from __future__ import annotations

import pytest

from tests.support.service import Job, Json, Service
from tests.support.site import GatedSite

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
