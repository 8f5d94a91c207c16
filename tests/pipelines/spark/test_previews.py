"""The first rows of each step, as workers tell them while they make them."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyarrow.json import read_json
from pyspark.sql import SparkSession

from driver.progress import RunProgress
from pipelines.contract.context import RunContext
from pipelines.contract.report import RunResult
from pipelines.engine.options import make_fetch_options
from pipelines.engine.run import Run
from pipelines.language.json_values import PREVIEW_LENGTH, to_json
from pipelines.page_cache.options import CacheOptions
from pipelines.pipeline import Pipeline
from pipelines.spark.engine import SparkEngine
from pipelines.spark.runner import SparkRunner
from tests.support.pipelines import crawl
from tests.support.site import Site

LINKS = "".join(f"<a href=/{number}>to {number}</a>" for number in range(30))
PAGES = {f"/{number}": f"<h1 class=big>Page {number}</h1><p>a<p>b" for number in range(30)}
JOIN = "{stage: join, args: [a]}"
EXTRACT = "{stage: extract, args: [{selector: h1, as: title}, {selector: h1, method: attrs, as: all}]}"


@contextmanager
def write(
    spark: SparkSession, text: str, folder: Path, shown: int = 4, limit: int | None = None
) -> Generator[tuple[RunResult, RunProgress]]:
    """Write the output of a run that caches no pages, so that a second request for a page would be seen."""
    plan = Pipeline.from_yaml(text).plan()
    fetch = make_fetch_options(plan.options, ("127.0.0.0/8",))
    context = RunContext(fetch=fetch, cache=CacheOptions(enabled=False), limit=limit)
    with Run(plan, context, shown) as run:
        progress = RunProgress(plan, run, _hidden)
        result = SparkRunner(run, spark).write(str(folder / "rows"))
        progress.set_result(result)
        progress.finish("COMPLETED")
        yield result, progress


def _hidden(value: Any) -> Any:
    return json.loads(json.dumps(value).replace("Page 2", "********"))


@pytest.mark.long
def test_the_first_rows_in_document_order_are_shown_and_nothing_is_fetched_twice(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    base = site.serve({"/": LINKS, **PAGES})
    again = "{stage: flatSelect, args: [p, {selector: $title, as: again}]}"
    text = crawl(f"{base}/", JOIN, EXTRACT, again, options="keepColumns: [_url, _status, _linkText]")
    with write(spark, text, tmp_path) as (result, progress):
        stages = {stage.key: stage.preview for stage in progress.list_stages()}
        assert set(site.requests.values()) == {1}
    assert [(row["again"], row["_url"], row["_status"], row["_linkText"]) for row in result.preview] == [
        (f"Page {number}", f"{base}/{number}", 200, f"to {number}") for number in (0, 0, 1, 1)
    ]
    titles = ["Page 0", "Page 1", "********", "Page 3"]
    assert stages["s03_extract"] == [{"title": title, "all": {"class": "big"}} for title in titles]
    assert [row["again"] for row in stages["s04_flatSelect"]] == ["Page 0", "Page 0", "Page 1", "Page 1"]
    assert stages["s01_fetch"] == [{"_requestedUrl": f"{base}/", "_status": 200, "_error": None}]
    assert [row["_requestedUrl"] for row in stages["s02_wgetJoin"]] == [f"{base}/{number}" for number in range(4)]


@pytest.mark.parametrize(
    "order",
    [
        "{stage: sort, args: [{column: title, desc: true}]}",
        "{stage: sql_query, args: [SELECT * FROM rows ORDER BY title DESC]}",
    ],
)
def test_the_preview_and_the_files_have_the_order_of_the_rows(
    spark: SparkSession, site: Site, tmp_path: Path, order: str
) -> None:
    base = site.serve({"/": LINKS, **PAGES})
    query = "{stage: sql_query, args: ['SELECT lower(title) AS title FROM rows']}"
    stages = f"  - {{stage: join, args: [a]}}\n  - {EXTRACT}\n  - {order}\n  - {query}\n"
    with write(spark, f"fetch: {{url: '{base}/'}}\npipeline:\n{stages}", tmp_path) as (result, _):
        assert set(site.requests.values()) == {1}
    titles = sorted((f"page {number}" for number in range(30)), reverse=True)
    assert [row["title"] for row in result.preview] == titles[:4]
    files = sorted((tmp_path / "rows").glob("*.parquet"))
    assert [title for file in files for title in pq.read_table(file).column("title").to_pylist()] == titles


@pytest.mark.parametrize("stage", ["join", pytest.param("explore", marks=pytest.mark.long)])
@pytest.mark.parametrize("format_", ["parquet", "json"])
def test_files_after_a_pass_are_in_the_order_of_the_pages(
    spark: SparkSession, site: Site, tmp_path: Path, stage: str, format_: str
) -> None:
    base = site.serve({"/": LINKS, **PAGES})
    text = f"fetch: {{url: '{base}/'}}\npipeline: [{{stage: {stage}, args: [a]}}, {EXTRACT}]\n"
    with write(spark, f"{text}output: {{format: {format_}}}", tmp_path) as (result, _):
        assert set(site.requests.values()) == {1}
    first = ["Page 0"] if stage == "join" else [None, "Page 0"]
    assert [row["title"] for row in result.preview][: len(first)] == first
    titles = [*first, *(f"Page {number}" for number in range(1, 30))]
    read = pq.read_table if format_ == "parquet" else read_json
    files = sorted((tmp_path / "rows").glob("part-*"))
    assert [title for file in files for title in read(file).column("title").to_pylist()] == titles


def test_rows_of_an_explore_are_shown_from_all_its_levels(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    base = site.serve(
        {"/": "<h1>0</h1><a href=/1>", **{f"/{n}": f"<h1>{n}</h1><a href=/{n + 1}>" for n in range(1, 6)}}
    )
    stages = "[{stage: explore, args: [a, 5]}, {stage: extract, args: [{selector: h1, as: n}]}]"
    with write(spark, f"fetch: {{url: '{base}/'}}\npipeline: {stages}", tmp_path) as (result, _):
        assert [row["n"] for row in result.preview] == ["0", "1", "2", "3"]
        assert set(site.requests.values()) == {1}


@pytest.mark.parametrize(
    ("limit", "kept", "shown"), [(2, 4, 2), pytest.param(9, 4, 4, marks=pytest.mark.long), (None, 0, 0)]
)
def test_no_more_is_shown_than_the_limit_and_the_number_of_shown_rows_let_be(
    spark: SparkSession, site: Site, tmp_path: Path, limit: int | None, kept: int, shown: int
) -> None:
    base = site.serve({"/": LINKS, **PAGES})
    with write(spark, crawl(f"{base}/", JOIN, EXTRACT), tmp_path, kept, limit) as (result, _):
        assert [row["title"] for row in result.preview] == [f"Page {number}" for number in range(shown)]
        assert set(site.requests.values()) == {1}


def test_values_are_cut(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    base = site.serve({"/": f"<h1>{'x' * 300}</h1>"})
    text = f"fetch: {{url: '{base}/'}}\npipeline: [{{stage: extract, args: [{{selector: h1, as: title}}]}}]"
    with write(spark, text, tmp_path) as (result, _):
        assert result.preview == [{"title": "x" * (PREVIEW_LENGTH - 1) + "…"}]


def test_maps_are_cut_as_lists_are() -> None:
    entries = {f"{number:<300}": "v" * 300 for number in range(1000)}
    for value in (entries, list(entries.items())):
        shown = to_json(value, PREVIEW_LENGTH)
        assert len(shown) == 20
        assert {len(text) for entry in shown.items() for text in entry} == {PREVIEW_LENGTH}
        assert to_json(value, None) == entries


def test_nested_values_are_truncated_as_a_whole() -> None:
    table = [{"name": "Lamp", "sizes": [1, 2, 3]}] * 20
    assert to_json(table, PREVIEW_LENGTH) == table
    wide: object = "x"
    for _ in range(6):
        wide = [wide] * 20
    assert str(to_json(wide, PREVIEW_LENGTH)).count("x") < 400
    assert to_json([[1] * 20] * 19 + ["last"], None)[-1] == "last"


def test_values_nested_too_deep_are_left_out() -> None:
    deep: object = "x"
    for _ in range(900):
        deep = [deep]
    shown = str(to_json({"deep": deep}, PREVIEW_LENGTH))
    assert "x" not in shown
    assert "…" in shown


def test_of_bytes_their_number_is_shown_and_where_nothing_is_cut_they_are_base64() -> None:
    value = {"picture": b"secret" * 2000, "none": [b""]}
    assert to_json(value, PREVIEW_LENGTH) == {"picture": "<12,000 bytes>", "none": ["<0 bytes>"]}
    assert to_json({"picture": b"secret"}, None) == {"picture": "c2VjcmV0"}


@pytest.mark.parametrize("last", ["{stage: filter, args: ['n > 1']}", "{stage: dedup, args: [n]}"])
def test_rows_made_by_spark_are_not_counted_by_workers(spark: SparkSession, tmp_path: Path, last: str) -> None:
    (tmp_path / "a.csv").write_text("n\n1\n2\n3\n")
    stages = f"[{{stage: load_csv, args: ['{tmp_path}/a.csv']}}, {last}]"
    plan = Pipeline.from_yaml(f"pipeline: {stages}").plan()
    engine = SparkEngine(spark, plan, RunContext())
    engine.build_rows()
    assert engine.last_worker_step is None


@pytest.mark.long
def test_rows_in_no_order_are_computed_once_and_shown_from_their_files(spark: SparkSession, tmp_path: Path) -> None:
    kept: Any = spark.sparkContext._jsc  # pyright: ignore[reportPrivateUsage]
    before = kept.getPersistentRDDs().size()
    (tmp_path / "in.csv").write_text("sku\n" + "".join(f"{number}\n" for number in range(9)))
    joined = f"""
pipeline:
  - stage: sql_query
    args:
      - SELECT a.sku, count(*) AS n FROM a JOIN a b ON true GROUP BY a.sku
      - {{tables: {{a: {tmp_path}/in.csv}}}}
  - {{stage: filter, args: ["sku <> '3'"]}}
"""
    with write(spark, joined, tmp_path, limit=5) as (result, progress):
        stored = pq.read_table(tmp_path / "rows").to_pylist()
        assert [stage.rows for stage in progress.list_stages()][:2] == [9, 8]
    assert len(stored) == 5
    assert len(result.preview) == 4
    assert all(each in stored for each in result.preview)
    assert kept.getPersistentRDDs().size() <= before, "no rows are cached"


@pytest.mark.parametrize(("query", "shown"), [("SELECT a.sku FROM a WHERE false", []), ("SELECT 1 AS b FROM a", [1])])
def test_few_rows_and_none_are_shown_from_files(
    spark: SparkSession, tmp_path: Path, query: str, shown: list[int]
) -> None:
    (tmp_path / "in.csv").write_text("sku\na\n")
    text = f"pipeline: [{{stage: sql_query, args: [{query}, {{tables: {{a: {tmp_path}/in.csv}}}}]}}]"
    with write(spark, text, tmp_path) as (result, _):
        assert [each.get("b") for each in result.preview] == shown
