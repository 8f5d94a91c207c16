"""Packages of row functions in whole executions of a service, with Spark and without."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.service import SMALL, Job, Service
from tests.support.wheels import write_library

ADD = "import adder\ndef add(row) -> {'sum': int}:\n    return {'sum': adder.add(int(row['a']))}\n"


@pytest.fixture
def packaged(tmp_path: Path) -> Generator[Service]:
    """A service whose index is a folder of wheels."""
    write_library(tmp_path / "wheels", "adder", "def add(n): return n + 1\n")
    (tmp_path / "rows.csv").write_text("a\n1\n41\n")
    own = {"SPINDLE_LOCAL_FOLDERS": str(tmp_path), "SPINDLE_PACKAGE_INDEX": str(tmp_path / "wheels")}
    service = Service(tmp_path / "data", {**SMALL, **own}).start()
    try:
        yield service
    finally:
        service.stop()


@pytest.mark.long
def test_functions_have_their_packages_with_spark_and_without(packaged: Service, tmp_path: Path) -> None:
    for engine in ("local", "spark"):
        text = (
            f"pipeline:\n  - {{stage: load_csv, args: ['{tmp_path}/rows.csv']}}\n"
            f"  - {{stage: 'python_row_transform:add'}}\nspindle: {{packages: [adder==1.0], engine: {engine}}}\n"
        )
        project = packaged.post("/projects", {"name": engine})["id"]
        agent = packaged.post("/agents", {"name": engine, "pipelineYaml": text})["id"]
        packaged.post(f"/agents/{agent}/python-extensions", {"name": "add", "function": ADD})
        job = Job(project, packaged.post(f"/projects/id/{project}/jobs", {"name": "sums", "agentId": agent})["id"])
        status = packaged.wait(job, packaged.execute(job))
        assert status["status"] == "COMPLETED", status
        answer = packaged.post("/datasets/query", {"sql": f'SELECT sum FROM "{engine}".sums ORDER BY sum'})
        assert "2" in str(answer)
        assert "42" in str(answer)
    (environment,) = (tmp_path / "data" / "packages").glob("*/adder.py")
    assert environment.is_file()
