"""Rows of pages that failed are left out where they tell nothing, on both engines, in previews and trials alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.engine.run import Run as PlanRun
from pipelines.local.engine_choice import find_spark_need
from pipelines.local.runner import LocalRunner
from pipelines.pipeline import Pipeline
from pipelines.spark.runner import SparkRunner
from tests.support.pipelines import TITLE, Run, crawl, make_context
from tests.support.site import Site
from tests.support.trials import open_trial

PAGES: dict[str, str | int] = {
    "/": "".join(f"<li><b>item {number}</b><a href=/{number}>x</a></li>" for number in range(6)),
    **{f"/{number}": f"<h1>Page {number}</h1>" for number in (1, 2, 5)},
    "/0": 500,
    "/3": 404,
    "/4": "<title>Just a moment...</title><script src='/cdn-cgi/challenge-platform/x.js'></script>",
}
JOIN = "{stage: join, args: [a]}"
FOUND = [{"title": f"Page {number}"} for number in (1, 2, 5)]


def _write(base: str, *stages: str, more: str = "") -> str:
    return crawl(f"{base}/", *stages, options=f"maxFailureRatio: 1, retries: 0{more}")


@pytest.mark.parametrize(
    "stages",
    [
        (JOIN, TITLE),
        ("{stage: join, args: [a, Inner]}", TITLE),
        ("{stage: explore, args: [a, 1]}", TITLE, "{stage: filter, args: ['title IS NOT NULL']}"),
        (JOIN, TITLE, "{stage: dedup}"),
        (JOIN, TITLE, "{stage: dedup, args: [_url]}"),
        (JOIN, TITLE, "{stage: limit, args: [9]}"),
    ],
)
def test_a_row_without_values_whose_page_failed_is_left_out(run: Run, site: Site, stages: tuple[str, ...]) -> None:
    assert run(_write(site.serve(PAGES), *stages)) == FOUND


def test_failed_rows_take_no_place_before_a_limit(run: Run, site: Site) -> None:
    stages = JOIN, TITLE, "{stage: sort, args: [title]}", "{stage: limit, args: [2]}"
    assert run(_write(site.serve(PAGES), *stages)) == FOUND[:2]


def test_a_kept_engine_column_keeps_the_rows(run: Run, site: Site) -> None:
    text = _write(site.serve(PAGES), JOIN, TITLE, more=", keepColumns: [_status]")
    titles = [None, "Page 1", "Page 2", None, None, "Page 5"]
    statuses = [500, 200, 200, 404, 200, 200]
    assert run(text) == [{"title": t, "_status": s} for t, s in zip(titles, statuses, strict=True)]


def test_a_row_with_values_of_its_parent_stays(run: Run, site: Site) -> None:
    rows = run(_write(site.serve(PAGES), "{stage: flatSelect, args: [li, {selector: b, as: item}]}", JOIN, TITLE))
    assert [row["item"] for row in rows] == [f"item {number}" for number in range(6)]
    assert [row["title"] for row in rows] == [None, "Page 1", "Page 2", None, None, "Page 5"]


def test_rows_of_pages_that_were_read_stay_without_values(run: Run, site: Site) -> None:
    base = site.serve({"/": "<a href=/1>x</a><a href=/2>x</a>", "/1": "<p>nothing", "/2": "<h1>Two</h1>"})
    assert run(_write(base, JOIN, TITLE)) == [{"title": None}, {"title": "Two"}]


def test_failures_that_a_later_stage_asks_for_reach_it(run: Run, site: Site) -> None:
    stages = JOIN, TITLE, "{stage: filter, args: ['_status = 404']}"
    found = run(_write(site.serve(PAGES), *stages, more=", keepColumns: [_status]"))
    assert found == [{"title": None, "_status": 404}]


@pytest.mark.usefixtures("spark")
def test_a_query_without_engine_columns_sees_no_failed_rows(run: Run, site: Site) -> None:
    query = "{stage: sql_query, args: ['SELECT title FROM rows']}"
    assert run(_write(site.serve(PAGES), JOIN, TITLE, query)) == FOUND


@pytest.mark.usefixtures("spark")
def test_a_query_may_count_the_failures(run: Run, site: Site) -> None:
    query = "{stage: sql_query, args: ['SELECT _status AS s, count(*) AS n FROM rows GROUP BY _status ORDER BY s']}"
    rows = run(_write(site.serve(PAGES), JOIN, TITLE, query))
    assert rows == [{"s": 200, "n": 4}, {"s": 404, "n": 1}, {"s": 500, "n": 1}]


def test_columns_that_a_function_does_not_declare_are_no_exception(run: Run, site: Site) -> None:
    text = _write(site.serve(PAGES), JOIN, TITLE, "{stage: 'python_row_transform:keep'}")
    assert run(text, transforms={"keep": "def keep(row):\n    return {'title': row['title']}\n"}) == FOUND


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.long)])
def test_previews_have_the_rows_of_the_output(
    engine: str, site: Site, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    plan = Pipeline.from_yaml(_write(site.serve(PAGES), JOIN, TITLE)).plan()
    assert find_spark_need(plan) is None
    with PlanRun(plan, make_context(plan), 2) as run:
        runner = SparkRunner(run, request.getfixturevalue("spark")) if engine == "spark" else LocalRunner(run)
        result = runner.write(str(tmp_path / "rows"))
        counts = run.get_counts()["s03_extract"]
    assert result.preview == FOUND[:2]
    assert result.output
    assert (result.output.rows, counts.rows) == (3, 6)


def test_a_trial_shows_the_rows_of_the_output(site: Site) -> None:
    plan = Pipeline.from_yaml(_write(site.serve(PAGES), JOIN, TITLE)).plan()
    with open_trial(plan, 10) as trial:
        assert [row.values for row in trial.iter_shown_rows()] == FOUND
        assert [failure.step for failure in trial.failures] == ["s02_wgetJoin"] * 3
