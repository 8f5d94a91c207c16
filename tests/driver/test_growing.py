"""A driver that begins without Spark and goes on with it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.driver import driver, finish, spec
from tests.support.site import Site
from tests.support.webhook_receiver import Receiver

PAGES = {"/": "".join(f"<a href=/{each}>{each}</a>" for each in range(12))}
PAGES |= {f"/{each}": f"<h1>{each}</h1>" for each in range(12)}


@pytest.mark.long
@pytest.mark.parametrize("stage", ["{stage: wgetJoin, args: [a]}", "{stage: wgetExplore, args: [a, 2]}"])
def test_a_driver_grows_over_and_reports_both_engines(
    tmp_path: Path, site: Site, receiver: Receiver, stage: str
) -> None:
    base = site.serve(PAGES)
    pipeline = f"""
fetch: {{url: "${{BASE}}/"}}
pipeline:
  - {stage}
  - {{stage: extract, args: [{{selector: h1, as: title}}]}}
"""
    content = spec(tmp_path, receiver.url, pipelineYaml=pipeline, parameters={"BASE": base}, growth={"pages": 5})
    with driver(tmp_path, content) as process:
        log = finish(process, 0)
    report = receiver.take()[-1].payload
    titles = {row["title"] for row in pq.read_table(tmp_path / "out").to_pylist()}
    assert titles - {None} == {str(each) for each in range(12)}
    assert set(site.requests.values()) == {1}
    assert report["additionalMetrics"]["engine"] == "local, then spark"
    assert report["executorCount"] == 1
    assert [line["event"] for line in log].count("goes on with Spark") == 1
