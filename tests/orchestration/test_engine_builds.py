"""Builds of the engine other than the service's own, which projects and jobs select for their drivers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.service import Job, Service
from tests.support.wheels import build_engine, build_wheel

# what is sad for this service is happy for the build
CHANGES = {"plugins/sentiment.py": ("_THRESHOLD = 0.05", "_THRESHOLD = -2.0")}
PIPELINE = """
pipeline:
  - {{stage: load_csv, args: ["{folder}/rows.csv"]}}
  - {{stage: sentiment, args: [text]}}
spindle: {{engine: {engine}}}
"""


def store_build(service: Service, number: int, wheel: Path) -> str:
    """Upload a wheel, and return the id of a build with it."""
    with service.client() as client:
        uploaded = client.post("/admin/etl-library-versions/upload", files={"file": (wheel.name, wheel.read_bytes())})
    assert uploaded.is_success, uploaded.text
    new = {"buildType": "development", "buildNumber": number, "version": "0.2.0", "jarPath": uploaded.json()["jarPath"]}
    return service.post("/admin/etl-library-versions", new)["id"]


def make_job(service: Service, build: str | None, engine: str = "local") -> Job:
    job = service.make_job(PIPELINE.format(folder=service.files, engine=engine))
    selection = {"parameters": {"etlLibraryVersionId": build}} if build else {}
    with service.client() as client:
        changed = client.put(job.path, json={"name": "rows", **selection})
    assert changed.is_success, changed.text
    return job


def execute(service: Service, job: Job) -> dict[str, Any]:
    """Execute a job to its end; return the status with the label of its row."""
    execution = service.execute(job)
    status = service.wait(job, execution)
    if status["status"] == "COMPLETED":
        dataset = service.get(f"{job.path}/executions/{execution}")["datasetId"]
        answer = service.post("/datasets/query", {"sql": "SELECT sentiment_label FROM dataset", "datasetId": dataset})
        status["label"] = answer["results"][0]["sentiment_label"]
    return status


def list_installed(service: Service) -> set[str]:
    return {each.name for each in (service.data / "packages").glob("*-*") if each.is_dir()}


@pytest.mark.long
def test_a_job_is_driven_by_the_build_that_it_selects(customized: Service, tmp_path: Path) -> None:
    wheel = build_engine(tmp_path, "0.2.0", CHANGES)
    (customized.files / "rows.csv").write_text("text\nThis is terrible.\n")
    before = list_installed(customized)
    build = store_build(customized, 1, wheel)
    for engine in ("local", "spark"):
        changed = execute(customized, make_job(customized, build, engine))
        assert changed["status"] == "COMPLETED", changed
        assert changed["label"] == "positive"
        assert execute(customized, make_job(customized, None, engine))["label"] == "negative"
    (installed,) = list_installed(customized) - before
    assert installed.startswith("wheel-"), "what the build requires is the service's own"

    broken = tmp_path / "spindle-1.0-py3-none-any.whl"
    protocol = {"driver/protocol.py": b"PROTOCOL = 1\n"}
    broken.write_bytes(build_wheel("spindle", "", metadata="Requires-Dist: nowhere\n", files=protocol))
    failed = execute(customized, make_job(customized, store_build(customized, 2, broken)))
    assert failed["status"] == "FAILED"
    assert failed["errorMessage"].startswith("Version 0.2.0 of the engine cannot be installed: ")
    assert "nowhere" in failed["errorMessage"]
