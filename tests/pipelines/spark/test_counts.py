"""What the driver's coordinator counts while a pipeline runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import psutil
import pytest
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.coordination.server import Coordinator
from pipelines.engine.run import Run
from pipelines.errors import RunError
from pipelines.pipeline import Pipeline
from pipelines.spark.engine import SparkEngine
from pipelines.spark.runner import SparkRunner
from tests.support.libraries import needs_libraries
from tests.support.pipelines import TITLE, crawl, make_context
from tests.support.service import PATIENCE_SECONDS, wait_until
from tests.support.site import Site


def test_each_step_counts_its_rows_pages_errors_and_bytes(spark: SparkSession, site: Site) -> None:
    base = site.serve({"/": "<a href=/1>1</a><a href=/2>2</a>", "/1": "<h1>One</h1>"})
    plan = Pipeline.from_yaml(crawl(f"{base}/", "{stage: join, args: [a]}", TITLE)).plan()
    context = make_context(plan)
    site.delay = 0.3
    with Coordinator(context.fetch) as coordinator:
        SparkEngine(spark, plan, replace(context, endpoint=coordinator.endpoint)).build_rows().count()
        counts = coordinator.get_counts()
    seed, join, extract = (counts[key] for key in sorted(counts))
    assert join.seconds >= max(0.3, extract.seconds)
    assert (seed.rows, seed.pages, seed.errors, seed.bytes) == (1, 1, 0, 32)
    assert (join.rows, join.pages, join.errors, join.bytes) == (2, 2, 1, len("<h1>One</h1>") + len("<h1>no</h1>"))


def test_pages_are_not_fetched_from_the_coordinator(spark: SparkSession, site: Site) -> None:
    text = crawl(f"{site.url}/", "{stage: join, args: [a]}", options="keepColumns: [_error], maxFailureRatio: 1")
    plan = Pipeline.from_yaml(text).plan()
    before = list_ports()
    run = Run(plan, make_context(plan))
    (port,) = list_ports() - before
    site.serve({"/": f"<a href=http://127.0.0.1:{port}/>coordinator</a>"})
    with run:
        (row,) = SparkRunner(run, spark).collect().collect()
    assert "127.0.0.1 is an address of this service itself" in row["_error"]


def list_ports() -> set[int]:
    """Return the ports that this process listens on."""
    sockets = psutil.Process().net_connections("tcp")
    return {each.laddr.port for each in sockets if each.status == psutil.CONN_LISTEN}


def test_an_explore_counts_each_page_once(spark: SparkSession, site: Site) -> None:
    base = site.serve({"/": "<a href=/1>1</a>", "/1": "<a href=/2>2</a>", "/2": "<a href=/>0</a>"})
    text = crawl(f"{base}/", "{stage: explore, args: [a, 5]}", options="keepColumns: [_url]")
    plan = Pipeline.from_yaml(text).plan()
    context = make_context(plan)
    with Coordinator(context.fetch) as coordinator:
        SparkEngine(spark, plan, replace(context, endpoint=coordinator.endpoint)).build_rows().count()
        counts = coordinator.get_counts()
    seed, explore = (counts[key] for key in sorted(counts))
    assert (seed.rows, seed.pages, explore.rows, explore.pages) == (1, 1, 3, 2)


def test_steps_can_be_counted_while_they_are_built(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n2\n")
    stages = [f"{{stage: load_csv, args: ['{tmp_path}/a.csv']}}", *["{stage: filter, args: ['a > 1']}"] * 20]
    plan = Pipeline.from_yaml(f"pipeline: [{', '.join(stages)}]").plan()
    engine, built = SparkEngine(spark, plan, RunContext()), Event()

    def count() -> None:
        while not built.is_set():
            engine.get_counts()

    with ThreadPoolExecutor() as pool:
        counting = pool.submit(count)
        try:
            rows = engine.build_rows()
        finally:
            built.set()
        counting.result()
    rows.collect()
    wait_until(lambda: len(engine.get_counts()) == 21, PATIENCE_SECONDS)  # Spark tells them after the rows
    assert list(engine.get_counts().values()) == [2] + [1] * 20


@pytest.mark.long
@pytest.mark.parametrize(
    ("lines", "stages", "loaded"),
    [
        ("", "{stage: wget, args: [$page]}", 0),
        ("/a\n", "{stage: filter, args: [\"page = '/b'\"]}, {stage: wget, args: [$page]}", 1),
        ("/a\n", "{stage: sql_query, args: ['SELECT page FROM rows LIMIT 0']}, {stage: wget, args: [$page]}", None),
        ("", "{stage: wget, args: [$page]}, {stage: explore, args: [a, 2]}", 0),
    ],
)
def test_no_rows_before_a_fetch_give_an_empty_table(
    spark: SparkSession, tmp_path: Path, lines: str, stages: str, loaded: int | None
) -> None:
    (tmp_path / "a.csv").write_text(f"page\n{lines}")
    load, extract = f"{{stage: load_csv, args: ['{tmp_path}/a.csv']}}", "{stage: extract, args: [{selector: h1}]}"
    with Run(Pipeline.from_yaml(f"pipeline: [{load}, {stages}, {extract}]").plan(), preview_rows=3) as run:
        result = SparkRunner(run, spark).write(str(tmp_path / "rows"))
        if loaded is not None:  # else Spark need not load the rows
            wait_until(lambda: "s01_load_csv" in run.get_counts(), PATIENCE_SECONDS)  # Spark tells them after the rows
        counts = run.get_counts()
        first = counts.pop("s01_load_csv", None)
    assert (result.output.rows, result.preview) == (0, [])
    assert result.output.columns == (("page", "string"), ("text", "string"))
    assert loaded is None or (first is not None and first.rows == loaded)
    assert {each.rows for each in counts.values()} <= {0}


@pytest.mark.parametrize(
    ("output", "stage"),
    [
        pytest.param("{format: delta}", "filter, args: [title IS NOT NULL]", marks=needs_libraries),
        pytest.param("{format: iceberg}", "limit, args: [5]", marks=needs_libraries),
        ("{mode: history, keys: [title]}", "filter, args: [title IS NOT NULL]"),
    ],
)
def test_failed_pages_are_known_before_a_commit(
    spark: SparkSession, site: Site, tmp_path: Path, output: str, stage: str
) -> None:
    """Rows that end in a stage of tables are computed by no pass: what has failed is not known before they are."""
    base = site.serve({"/": 404})
    stages = f"[{{stage: extract, args: [{{selector: h1, as: title}}]}}, {{stage: {stage}}}]"
    plan = Pipeline.from_yaml(f"fetch: {{url: '{base}/'}}\npipeline: {stages}\noutput: {output}").plan()
    context = make_context(plan, saves_folder=str(tmp_path / "saves"), author="one")
    with Run(plan, context) as run, pytest.raises(RunError, match="1 of 1 addresses could not be fetched"):
        SparkRunner(run, spark).write(str(tmp_path / "rows"))
    assert site.requests["/"] == 1
