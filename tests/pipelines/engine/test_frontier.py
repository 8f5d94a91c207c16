"""The links that a task follows itself: the same pages, rows and counts as with exchanges between tasks."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.engine import segment
from pipelines.engine.frontier import FoundLink, Frontier
from pipelines.engine.options import make_fetch_options
from pipelines.engine.run import Run
from pipelines.extract.rows import Row
from pipelines.pipeline import Pipeline
from pipelines.spark.dataframes import to_records
from pipelines.spark.runner import SparkRunner
from tests.support.pipelines import Rows
from tests.support.site import Site

EXCHANGES, SMALL, LARGE = 0, 4, 1000
PIPELINE = """
fetch: {{url: "{base}/0"}}
pipeline:
  - {{stage: explore, args: [a.up, 30]}}
  - {{stage: extract, args: [{{selector: h1, as: area}}]}}
  - {{stage: explore, args: [a.down, 2]}}
  - {{stage: extract, args: [{{selector: h1, as: name}}]}}
spindle: {{keepColumns: [_depth, _linkText, _requestedUrl, _status, _ordinal, _error]{options}}}
"""


def build_pages(random: Random) -> dict[str, str | int]:
    """Return pages in levels of one to a dozen, with links back, to missing pages, and to pages of a second explore."""
    pages: dict[str, str | int] = {"/7": 500}
    for number in range(14):
        up = random.sample(range(number + 1, number + 9), random.randint(1, 4)) + random.choices(range(number + 1), k=2)
        links = [f"<a class=up href=/{each}#{random.random()}>up {each}</a>" for each in up]
        links += [f"<a class=down href=/d{random.randrange(14)}>down</a>" for _ in range(random.randrange(2))]
        pages.setdefault(f"/{number}", f"<h1>{number}</h1>{''.join(links)}")
    for number in range(12):
        links = [f"<a class=down href=/d{random.randrange(14)}>more</a>" for _ in range(3)]
        pages[f"/d{number}"] = f"<h1>d{number}</h1>{''.join(links)}"
    return pages


def crawl(
    spark: SparkSession, text: str, frontier: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[Rows, dict[str, tuple[int, int, int, int]]]:
    """Return the rows in document order and the counts of each step, with frontiers of at most so many pages."""
    monkeypatch.setattr(segment, "FRONTIER", frontier)
    plan = Pipeline.from_yaml(text).plan()
    options = make_fetch_options(plan.options, ("127.0.0.0/8",))
    with Run(plan, RunContext(fetch=options)) as run:
        rows = to_records(SparkRunner(run, spark).collect_ordered())
        counts = {key: (each.rows, each.pages, each.errors, each.bytes) for key, each in run.get_counts().items()}
    spark.catalog.clearCache()
    return rows, counts


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "frontiers"), [("", (SMALL, LARGE)), pytest.param(", maxPages: 17", (SMALL,), marks=pytest.mark.long)]
)
def test_rows_counts_and_requests_are_those_of_exchanges(
    options: str, frontiers: tuple[int, ...], spark: SparkSession, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages, results = build_pages(Random(18)), list[object]()
    for frontier in (EXCHANGES, *frontiers):
        text = PIPELINE.format(base=site.serve(pages), options=options)
        rows, counts = crawl(spark, text, frontier, monkeypatch)
        assert len(rows) >= 17
        results.append((rows, counts, site.requests))
    assert all(each == results[0] for each in results)


@given(
    found=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(-3, 20))),  # negative: a page of depth 0
    limit=st.integers(0, 8),
    max_pages=st.none() | st.integers(0, 9),
)
def test_links_are_held_or_all_handed_over(found: list[tuple[str, int]], limit: int, max_pages: int | None) -> None:
    frontier, handed_over, visited, first = Frontier(limit, max_pages), list[FoundLink](), set[str](), dict[str, int]()
    for url, place in found:
        if place < 0:
            handed_over += frontier.add_start(url)
            visited.add(url)
        else:
            handed_over += frontier.add(FoundLink(Row({}, (place,)), url, 1))
            first[url] = min(place, first.get(url, place))
    new = sorted((place, url) for url, place in first.items() if url not in visited)
    taken = [(row.ordinal[0], url) for url, row in frontier.take_level()]
    if not handed_over:
        left = None if max_pages is None else max(max_pages - len(visited), 0)
        assert [place for place, _ in taken] == [place for place, _ in new[:left]]
        assert {*taken} <= {*new}
        assert not any([*frontier.add(FoundLink(Row({}, (0,)), url, 2))] for _, url in taken)
        assert frontier.take_level() == []
    else:
        assert taken == []
        places = {
            url: min(each.row.ordinal[0] for each in handed_over if each.url == url and each.level) for _, url in new
        }
        assert sorted((place, url) for url, place in places.items()) == new
        assert {each.url for each in handed_over if each.level == 0} == visited
