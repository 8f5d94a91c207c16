"""Builds of the engine other than the service's own, which projects and jobs select for their drivers."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.support.service import SMALL, Job, Service
from tests.support.wheels import build_engine, build_wheel

# what is sad for this service is happy for the build
CHANGES = {"plugins/sentiment.py": ("_THRESHOLD = 0.05", "_THRESHOLD = -2.0")}
PIPELINE = """
pipeline:
  - {{stage: load_csv, args: ["{folder}/rows.csv"]}}
  - {{stage: sentiment, args: [text]}}
spindle: {{engine: {engine}}}
"""


@pytest.fixture
def service(tmp_path: Path) -> Generator[Service]:
    """A service whose index of packages is empty."""
    (tmp_path / "rows.csv").write_text("text\nThis is terrible.\n")
    (tmp_path / "index").mkdir()
    own = {"SPINDLE_LOCAL_FOLDERS": str(tmp_path), "SPINDLE_PACKAGE_INDEX": str(tmp_path / "index")}
    service = Service(tmp_path / "data", {**SMALL, **own}).start()
    try:
        yield service
    finally:
        service.stop()


def store_build(service: Service, number: int, wheel: Path) -> str:
    """Upload a wheel, and return the id of a build with it."""
    with service.client() as client:
        uploaded = client.post("/admin/etl-library-versions/upload", files={"file": (wheel.name, wheel.read_bytes())})
    assert uploaded.is_success, uploaded.text
    new = {"buildType": "development", "buildNumber": number, "version": "0.2.0", "jarPath": uploaded.json()["jarPath"]}
    return service.post("/admin/etl-library-versions", new)["id"]


def make_job(service: Service, folder: Path, build: str | None, engine: str = "local") -> Job:
    job = service.make_job(PIPELINE.format(folder=folder, engine=engine))
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


@pytest.mark.long
def test_a_job_is_driven_by_the_build_that_it_selects(service: Service, tmp_path: Path) -> None:
    wheel = build_engine(tmp_path, "0.2.0", CHANGES)
    build = store_build(service, 1, wheel)
    for engine in ("local", "spark"):
        changed = execute(service, make_job(service, tmp_path, build, engine))
        assert changed["status"] == "COMPLETED", changed
        assert changed["label"] == "positive"
        assert execute(service, make_job(service, tmp_path, None, engine))["label"] == "negative"
    names = sorted(each.name[:6] for each in (tmp_path / "data" / "packages").glob("*-*") if each.is_dir())
    assert names == ["wheel-"], "what the build requires is the service's own"

    broken = tmp_path / "spindle-1.0-py3-none-any.whl"
    protocol = {"driver/protocol.py": b"PROTOCOL = 1\n"}
    broken.write_bytes(build_wheel("spindle", "", metadata="Requires-Dist: nowhere\n", files=protocol))
    failed = execute(service, make_job(service, tmp_path, store_build(service, 2, broken)))
    assert failed["status"] == "FAILED"
    assert failed["errorMessage"].startswith("Version 0.2.0 of the engine cannot be installed: ")
    assert "nowhere" in failed["errorMessage"]
