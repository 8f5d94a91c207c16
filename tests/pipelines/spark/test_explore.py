from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.contract.context import RunContext
from pipelines.engine import segment
from pipelines.pipeline import Pipeline
from pipelines.spark import explore
from pipelines.spark.engine import SparkEngine
from tests.support.pipelines import Run
from tests.support.site import Site

# a → b, c; b → a, d; c → d, a; d → e; e → (nothing)
GRAPH = {
    "/a": "<h1>a</h1><a href=/b>B</a><a href=/c>C</a>",
    "/b": "<h1>b</h1><a href=/a#top>A</a><a href=/d>D</a>",
    "/c": "<h1>c</h1><a href=/d>D from c</a><a href=/a>A</a>",
    "/d": "<h1>d</h1><a href=/e>E</a><a href=/lost>lost</a>",
    "/e": "<h1>e</h1>",
}
EXPLORE = """
fetch: {{url: "{base}/a"}}
pipeline:
  - {{stage: wgetExplore, args: {args}}}
  - {{stage: extract, args: [{{selector: h1, as: name}}]}}
spindle: {{keepColumns: [_depth, _linkText, _status]}}
"""


@pytest.mark.parametrize("args", ["[a, 2]", "[a, {depth: 2}]", "[a, {depth: '2'}]", "{selector: a, depth: 2}"])
def test_breadth_first_with_the_start_and_each_page_once(run: Run, site: Site, args: str) -> None:
    base = site.serve(GRAPH)
    rows = run(EXPLORE.format(base=base, args=args))
    assert [tuple(row.values()) for row in rows] == [
        ("a", 0, None, 200),
        ("b", 1, "B", 200),
        ("c", 1, "C", 200),
        ("d", 2, "D", 200),
    ]
    assert set(site.requests.values()) == {1}


def test_a_failed_page_is_a_row_that_leads_nowhere(run: Run, site: Site) -> None:
    base = site.serve(GRAPH)
    rows = run(EXPLORE.format(base=base, args="[a, 9]"))
    assert [(row["name"], row["_depth"], row["_status"]) for row in rows][4:] == [("e", 3, 200), (None, 3, 404)]
    assert set(site.requests.values()) == {1}


def test_depth_defaults_to_one_and_zero_means_only_the_start(run: Run, site: Site) -> None:
    base = site.serve(GRAPH)
    assert [row["name"] for row in run(EXPLORE.format(base=base, args="[a]"))] == ["a", "b", "c"]
    assert [row["name"] for row in run(EXPLORE.format(base=base, args="[a, 0]"))] == ["a"]


def test_max_pages_keeps_the_nearest(run: Run, site: Site) -> None:
    base = site.serve(GRAPH)
    text = EXPLORE.format(base=base, args="[a, 9]").replace("spindle: {", "spindle: {maxPages: 4, ")
    assert [row["name"] for row in run(text)] == ["a", "b", "c", "d"]
    assert sum(site.requests.values()) == 4


def test_seeds_that_meet_explore_each_page_once(run: Run, site: Site) -> None:
    site.serve({**GRAPH, "/": "<a href=/b>b</a><a href=/c>c</a><a href=/b>b2</a>"})
    rows = run(
        """
fetch: {url: "${B}/"}
pipeline:
  - {stage: join, args: [a]}
  - {stage: extract, args: [{selector: h1, as: seed}]}
  - {stage: explore, args: [a, 1]}
  - {stage: extract, args: [{selector: h1, as: name}]}
""",
        B=site.url,
    )
    # both seeds lead to a and d: the first seed has them
    assert rows == [
        {"seed": "b", "name": "b"},
        {"seed": "b", "name": "a"},
        {"seed": "b", "name": "d"},
        {"seed": "c", "name": "c"},
    ]
    assert set(site.requests.values()) == {1}


def test_an_explore_after_an_explore_and_a_join_after_both(run: Run, site: Site) -> None:
    base = site.serve(
        {
            "/1": "<h1>1</h1><a class=next href=/2>next</a><a class=cat href=/x>x</a>",
            "/2": "<h1>2</h1><a class=cat href=/y>y</a><a class=cat href=/x>x</a>",
            "/x": "<h1>x</h1><a class=item href=/i>i</a>",
            "/y": "<h1>y</h1><a class=item href=/j>j</a><a class=item href=/i>i</a>",
            "/i": "<h1>i</h1>",
            "/j": "<h1>j</h1>",
        }
    )
    rows = run(
        """
fetch: {url: "${B}/1"}
pipeline:
  - {stage: explore, args: [a.next, 5]}
  - {stage: explore, args: [a.cat, 1]}
  - {stage: extract, args: [{selector: h1, as: list}]}
  - {stage: join, args: [a.item, Inner]}
  - {stage: extract, args: [{selector: h1, as: item}]}
""",
        B=base,
    )
    assert [tuple(row.values()) for row in rows] == [("x", "i"), ("y", "j"), ("y", "i")]
    assert set(site.requests.values()) == {1}


def test_segments_of_one_page_all_start_an_explore(run: Run, site: Site) -> None:
    base = site.serve({**GRAPH, "/": "<p>1 <a href=/b>b</a></p><p>2 <a href=/e>e</a></p>"})
    rows = run(
        """
fetch: {url: "${B}/"}
pipeline:
  - {stage: flatSelect, args: [p, {method: text, as: segment}]}
  - {stage: explore, args: [a, 1]}
  - {stage: extract, args: [{selector: ":root h1", as: name}]}
""",
        B=base,
    )
    assert [tuple(row.values()) for row in rows] == [("1 b", None), ("1 b", "b"), ("2 e", None), ("2 e", "e")]


def test_links_of_one_seed_are_spread_over_all_partitions(run: Run, site: Site, spark: object) -> None:
    links = "".join(f"<a href=/n{number}>n</a>" for number in range(200))
    base = site.serve({"/": links, **{f"/n{number}": "<h1>n</h1>" for number in range(200)}})
    plan_rows = run(
        "fetch: {url: '${B}/'}\npipeline: [{stage: join, args: [a]}, {stage: extract, args: [{selector: h1}]}]", B=base
    )
    assert len(plan_rows) == 200
    assert set(site.requests.values()) == {1}


@pytest.mark.long
def test_pages_and_links_of_earlier_levels_are_on_disk(
    run: Run, site: Site, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "FRONTIER", 0)
    base = site.serve(GRAPH)
    java: Any = spark.sparkContext
    known = {each.id() for each in java._jsc.sc().getRDDStorageInfo()}
    assert len(run(EXPLORE.format(base=base, args="[a, 9]").replace("{keep", "{engine: spark, keep"))) == 6
    kept = [each for each in java._jsc.sc().getRDDStorageInfo() if each.id() not in known]
    assert sum(each.diskSize() for each in kept) > 0
    assert sum(each.memSize() for each in kept) == 0


def test_the_pages_of_one_address_are_not_taken_for_few(spark: SparkSession) -> None:
    text = "fetch: {url: 'http://shop.test/'}\npipeline: [{stage: join, args: [a]}]\nspindle: {keepColumns: [_url]}"
    rows: Any = SparkEngine(spark, Pipeline.from_yaml(text).plan(), RunContext()).build_rows()
    assert rows._jdf.queryExecution().optimizedPlan().stats().sizeInBytes() > 2**60


@pytest.mark.parametrize("number", [0, 3, 20, 39, 40, 50])
def test_the_first_of_many_rows_are_those_in_document_order(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(explore, "_HELD_ROWS", 3)
    rows = spark.range(0, 40, 1, 4).select(F.array(F.xxhash64("id")).alias("_ordinal"))
    ordered = sorted(ordinal for (ordinal,) in rows.collect())
    assert sorted(ordinal for (ordinal,) in explore.take_first(rows, number).collect()) == ordered[:number]
