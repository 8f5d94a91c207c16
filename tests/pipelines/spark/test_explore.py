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
from tests.support.pipelines import Run, crawl
from tests.support.site import Site

# a → b, c; b → a, d; c → d, a; d → e; e → (nothing)
GRAPH = {
    "/a": "<h1>a</h1><a href=/b>B</a><a href=/c>C</a>",
    "/b": "<h1>b</h1><a href=/a#top>A</a><a href=/d>D</a>",
    "/c": "<h1>c</h1><a href=/d>D from c</a><a href=/a>A</a>",
    "/d": "<h1>d</h1><a href=/e>E</a><a href=/lost>lost</a>",
    "/e": "<h1>e</h1>",
}
NAME = "{stage: extract, args: [{selector: h1, as: name}]}"


def explore_graph(site: Site, args: str, more: str = "") -> str:
    """Return a pipeline that explores the graph."""
    kept = f"keepColumns: [_depth, _linkText, _status]{more}"
    return crawl(f"{site.serve(GRAPH)}/a", f"{{stage: wgetExplore, args: {args}}}", NAME, options=kept)


@pytest.mark.parametrize("args", ["[a, 2]", "[a, {depth: 2}]", "[a, {depth: '2'}]", "{selector: a, depth: 2}"])
def test_breadth_first_with_the_start_and_each_page_once(run: Run, site: Site, args: str) -> None:
    rows = run(explore_graph(site, args))
    assert [tuple(row.values()) for row in rows] == [
        ("a", 0, None, 200),
        ("b", 1, "B", 200),
        ("c", 1, "C", 200),
        ("d", 2, "D", 200),
    ]
    assert set(site.requests.values()) == {1}


def test_a_failed_page_is_a_row_that_leads_nowhere(run: Run, site: Site) -> None:
    rows = run(explore_graph(site, "[a, 9]"))
    assert [(row["name"], row["_depth"], row["_status"]) for row in rows][4:] == [("e", 3, 200), (None, 3, 404)]
    assert set(site.requests.values()) == {1}


def test_depth_defaults_to_one_and_zero_means_only_the_start(run: Run, site: Site) -> None:
    assert [row["name"] for row in run(explore_graph(site, "[a]"))] == ["a", "b", "c"]
    assert [row["name"] for row in run(explore_graph(site, "[a, 0]"))] == ["a"]


def test_max_pages_keeps_the_nearest(run: Run, site: Site) -> None:
    assert [row["name"] for row in run(explore_graph(site, "[a, 9]", ", maxPages: 4"))] == ["a", "b", "c", "d"]
    assert sum(site.requests.values()) == 4


def test_seeds_that_meet_explore_each_page_once(run: Run, site: Site) -> None:
    base = site.serve({**GRAPH, "/": "<a href=/b>b</a><a href=/c>c</a><a href=/b>b2</a>"})
    seed = NAME.replace("as: name", "as: seed")
    rows = run(crawl(f"{base}/", "{stage: join, args: [a]}", seed, "{stage: explore, args: [a, 1]}", NAME))
    # both seeds lead to a and d: the first seed has them
    assert [tuple(row.values()) for row in rows] == [("b", "b"), ("b", "a"), ("b", "d"), ("c", "c")]
    assert set(site.requests.values()) == {1}


def test_an_explore_after_an_explore_and_a_join_after_both(run: Run, site: Site) -> None:
    pages = {
        "/1": "<h1>1</h1><a class=next href=/2>next</a><a class=cat href=/x>x</a>",
        "/2": "<h1>2</h1><a class=cat href=/y>y</a><a class=cat href=/x>x</a>",
        "/x": "<h1>x</h1><a class=item href=/i>i</a>",
        "/y": "<h1>y</h1><a class=item href=/j>j</a><a class=item href=/i>i</a>",
        **{f"/{name}": f"<h1>{name}</h1>" for name in "ij"},
    }
    explores = "{stage: explore, args: [a.next, 5]}", "{stage: explore, args: [a.cat, 1]}"
    join = NAME.replace("as: name", "as: list"), "{stage: join, args: [a.item, Inner]}", NAME
    rows = run(crawl(f"{site.serve(pages)}/1", *explores, *join))
    assert [tuple(row.values()) for row in rows] == [("x", "i"), ("y", "j"), ("y", "i")]
    assert set(site.requests.values()) == {1}


def test_segments_of_one_page_all_start_an_explore(run: Run, site: Site) -> None:
    base = site.serve({**GRAPH, "/": "<p>1 <a href=/b>b</a></p><p>2 <a href=/e>e</a></p>"})
    segments = "{stage: flatSelect, args: [p, {method: text, as: segment}]}"
    root = '{stage: extract, args: [{selector: ":root h1", as: name}]}'
    rows = run(crawl(f"{base}/", segments, "{stage: explore, args: [a, 1]}", root))
    assert [tuple(row.values()) for row in rows] == [("1 b", None), ("1 b", "b"), ("2 e", None), ("2 e", "e")]


def test_links_of_one_seed_are_spread_over_all_partitions(run: Run, site: Site) -> None:
    pages = {f"/n{number}": "<h1>n</h1>" for number in range(200)}
    base = site.serve({"/": "".join(f"<a href={path}>n</a>" for path in pages), **pages})
    assert len(run(crawl(f"{base}/", "{stage: join, args: [a]}", NAME))) == 200
    assert set(site.requests.values()) == {1}


@pytest.mark.long
def test_pages_and_links_of_earlier_levels_are_on_disk(
    run: Run, site: Site, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "FRONTIER", 0)
    java: Any = spark.sparkContext
    known = {each.id() for each in java._jsc.sc().getRDDStorageInfo()}
    assert len(run(explore_graph(site, "[a, 9]", ", engine: spark"))) == 6
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
