"""Rows of cache and store stages in files, and runs that resume after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.contract.request import CheckpointFolders
from pipelines.coordination.server import Coordinator
from pipelines.engine.options import make_fetch_options
from pipelines.engine.run import Run
from pipelines.page_cache.options import CacheOptions
from pipelines.pipeline import Pipeline
from pipelines.spark.checkpoints import SUFFIX, Checkpoints, list_checkpoint_steps
from pipelines.spark.runner import SparkRunner
from tests.support.pipelines import crawl, make_context
from tests.support.site import Site

FIRST = {"/": "".join(f"<a href=/{each}>{each}</a>" for each in range(6))}
FIRST |= {f"/{each}": f"<h1 class=c{each}>Page {each}</h1>" for each in range(5)}  # the last one is missing
LATER = {f"/later{each}": f"<h2>Later {each}</h2>" for each in range(5)}
PIPELINE = """
fetch: {{url: '{base}/'}}
pipeline:
  - {{stage: wgetJoin, args: [a]}}
  - {{stage: extract, args: [{{selector: h1, as: title}}, {{selector: h1, method: attrs, as: all}}]}}
  - {{stage: store, args: [old]}}
  - {{stage: sql_query, args: ["SELECT *, '{base}/later' || right(title, 1) AS later, map(1, 2.50) AS m FROM rows"]}}
  - {{stage: echo, args: [2]}}
  - {{stage: cache}}
  - {{stage: wget, args: [$later]}}
  - {{stage: extract, args: [{{selector: h2, as: second}}]}}
  - {{stage: union_with, args: [old]}}
spindle: {{keepColumns: [_url, _status, _error, _ordinal, _linkText]}}
"""
Ran = tuple[list[dict[str, Any]], dict[str, Any], str | None]


def run(spark: SparkSession, text: str, folder: Path, attempt: int, digest: str = "same") -> Ran:
    """The rows, the counts without times, and the stage that the run resumed after."""
    plan = Pipeline.from_yaml(text).plan()
    fetch = make_fetch_options(plan.options, ("127.0.0.0/8",))
    earlier = tuple(str(folder / str(number)) for number in range(attempt - 1, 0, -1))
    folders = CheckpointFolders(str(folder / str(attempt)), digest, earlier)
    context = RunContext(fetch=fetch, cache=CacheOptions(enabled=False), checkpoints=folders)
    with Run(plan, context, 3) as active:
        SparkRunner(active, spark).write(str(folder / f"out{attempt}"))
        rows = sorted(pq.read_table(folder / f"out{attempt}").to_pylist(), key=lambda row: row["_ordinal"])
        counts = {key: each.rows for key, each in active.get_counts().items()}
        pages = {key: (each.pages, each.errors, each.bytes) for key, each in active.get_counts().items()}
        previews = {step.key: without_times([*active.get_preview(step.key)]) for step in plan.steps}
        resumed = active.resumed_after
        return rows, {"rows": counts, "pages": pages, "previews": previews}, resumed.name if resumed else None


def without_times(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "_fetchedAt"} for row in rows]


@pytest.mark.long
def test_a_resumed_run_gives_the_same_and_fetches_nothing_again(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    text = PIPELINE.format(base=site.serve({**FIRST, **LATER}))
    rows, shown, resumed = run(spark, text, tmp_path, 1)
    assert (resumed, len(rows)) == (None, 12)
    assert sum(row["second"] is not None for row in rows) == 5
    site.requests.clear()
    again = run(spark, text, tmp_path, 2)
    assert again[2] == "cache"
    for name in shown:
        assert again[1][name] == shown[name]
    assert without_times(again[0]) == without_times(rows)
    assert set(site.requests) == set(LATER)

    # a checkpoint counts only as a whole and for the same run; the one before it is taken otherwise
    assert find(spark, text, tmp_path, "other") is None
    (file, *_) = (tmp_path / "1").glob("*_cache/*.parquet")
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content[:-1])
    assert find(spark, text, tmp_path) == "store"
    (marker,) = (tmp_path / "1").glob(f"*_store{SUFFIX}")
    marker.write_bytes(b"cut")
    assert find(spark, text, tmp_path) is None


def find(spark: SparkSession, text: str, folder: Path, digest: str = "same") -> str | None:
    """The stage that another run would resume after."""
    folders = CheckpointFolders(str(folder / "next"), digest, (str(folder / "1"),))
    with Coordinator() as coordinator:
        found = Checkpoints(spark, Pipeline.from_yaml(text).plan(), folders, coordinator).resume({})
        return found.step.name if found else None


def test_rows_that_files_cannot_hold_stay_in_memory(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    text = crawl(
        site.serve(FIRST) + "/",
        "{stage: extract, args: [{selector: a, as: first}]}",
        '{stage: sql_query, args: ["SELECT first, make_interval(1, 2) AS gap FROM rows"]}',
        "{stage: cache}",
        '{stage: sql_query, args: ["SELECT first FROM rows"]}',
    )
    plan = Pipeline.from_yaml(text).plan()
    folders = CheckpointFolders(str(tmp_path / "own"), "same")
    context = make_context(plan, checkpoints=folders)
    with Run(plan, context) as active:
        SparkRunner(active, spark).write(str(tmp_path / "out"))
    assert pq.read_table(tmp_path / "out").to_pylist() == [{"first": "0"}]
    assert not list(tmp_path.glob(f"own/*{SUFFIX}"))


def test_which_steps_have_checkpoints() -> None:
    text = """
fetch: {url: "http://127.0.0.1/"}
pipeline:
  - {stage: extract, args: [{selector: a, as: first}]}
  - {stage: store, args: [unused]}
  - {stage: reset}
  - {stage: load_csv, args: [a.csv]}
  - {stage: store, args: [used]}
  - {stage: cache}
  - {stage: union_with, args: [used]}
  - {stage: save_csv, args: [b.csv]}
  - {stage: cache}
"""
    names = [step.key for step in list_checkpoint_steps(Pipeline.from_yaml(text).plan())]
    assert names == ["s06_store", "s07_cache"]
    assert list_checkpoint_steps(Pipeline.from_yaml(f"{text}spindle: {{session: true}}\n").plan()) == ()
