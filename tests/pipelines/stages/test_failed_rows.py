"""Rows of pages that failed are left out where they tell nothing, on both engines, in previews and trials alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.engine.options import make_fetch_options
from pipelines.engine.run import Run as PlanRun
from pipelines.language.engines import EngineName
from pipelines.local.engine_choice import find_spark_need
from pipelines.local.runner import LocalRunner
from pipelines.pipeline import Pipeline
from pipelines.spark.runner import SparkRunner
from tests.support.pipelines import Run
from tests.support.site import Site
from tests.support.trials import open_trial

PAGES: dict[str, str | int] = {
    "/": "".join(f"<li><b>item {number}</b><a href=/{number}>x</a></li>" for number in range(6)),
    **{f"/{number}": f"<h1>Page {number}</h1>" for number in (1, 2, 5)},
    "/0": 500,
    "/3": 404,
    "/4": "<title>Just a moment...</title><script src='/cdn-cgi/challenge-platform/x.js'></script>",
}
TITLE = "{stage: extract, args: [{selector: h1, as: title}]}"
FOUND = [{"title": f"Page {number}"} for number in (1, 2, 5)]
OPTIONS = "spindle: {maxFailureRatio: 1, retries: 0"


def _write(base: str, stages: str, more: str = "") -> str:
    listed = "\n".join(f"  - {stage}" for stage in stages.splitlines())
    return f"fetch: {{url: '{base}/'}}\npipeline:\n{listed}\n{OPTIONS}{more}}}\n"


@pytest.mark.parametrize(
    "stages",
    [
        f"{{stage: join, args: [a]}}\n{TITLE}",
        f"{{stage: join, args: [a, Inner]}}\n{TITLE}",
        f"{{stage: explore, args: [a, 1]}}\n{TITLE}\n{{stage: filter, args: ['title IS NOT NULL']}}",
        f"{{stage: join, args: [a]}}\n{TITLE}\n{{stage: dedup}}",
        f"{{stage: join, args: [a]}}\n{TITLE}\n{{stage: dedup, args: [_url]}}",
        f"{{stage: join, args: [a]}}\n{TITLE}\n{{stage: limit, args: [9]}}",
    ],
)
def test_a_row_without_values_whose_page_failed_is_left_out(run: Run, site: Site, stages: str) -> None:
    assert run(_write(site.serve(PAGES), stages)) == FOUND


def test_failed_rows_take_no_place_before_a_limit(run: Run, site: Site) -> None:
    stages = f"{{stage: join, args: [a]}}\n{TITLE}\n{{stage: sort, args: [title]}}\n{{stage: limit, args: [2]}}"
    assert run(_write(site.serve(PAGES), stages)) == FOUND[:2]


def test_a_kept_engine_column_keeps_the_rows(run: Run, site: Site) -> None:
    text = _write(site.serve(PAGES), f"{{stage: join, args: [a]}}\n{TITLE}", ", keepColumns: [_status]")
    titles = [None, "Page 1", "Page 2", None, None, "Page 5"]
    statuses = [500, 200, 200, 404, 200, 200]
    assert run(text) == [{"title": t, "_status": s} for t, s in zip(titles, statuses, strict=True)]


def test_a_row_with_values_of_its_parent_stays(run: Run, site: Site) -> None:
    stages = f"{{stage: flatSelect, args: [li, {{selector: b, as: item}}]}}\n{{stage: join, args: [a]}}\n{TITLE}"
    rows = run(_write(site.serve(PAGES), stages))
    assert [row["item"] for row in rows] == [f"item {number}" for number in range(6)]
    assert [row["title"] for row in rows] == [None, "Page 1", "Page 2", None, None, "Page 5"]


def test_rows_of_pages_that_were_read_stay_without_values(run: Run, site: Site) -> None:
    base = site.serve({"/": "<a href=/1>x</a><a href=/2>x</a>", "/1": "<p>nothing", "/2": "<h1>Two</h1>"})
    assert run(_write(base, f"{{stage: join, args: [a]}}\n{TITLE}")) == [{"title": None}, {"title": "Two"}]


def test_failures_that_a_later_stage_asks_for_reach_it(run: Run, site: Site) -> None:
    stages = f"{{stage: join, args: [a]}}\n{TITLE}\n{{stage: filter, args: ['_status = 404']}}"
    assert run(_write(site.serve(PAGES), stages, ", keepColumns: [_status]")) == [{"title": None, "_status": 404}]


@pytest.mark.usefixtures("spark")
def test_a_query_without_engine_columns_sees_no_failed_rows(run: Run, site: Site) -> None:
    query = "{stage: sql_query, args: ['SELECT title FROM rows']}"
    assert run(_write(site.serve(PAGES), f"{{stage: join, args: [a]}}\n{TITLE}\n{query}")) == FOUND


@pytest.mark.usefixtures("spark")
def test_a_query_may_count_the_failures(run: Run, site: Site) -> None:
    query = "{stage: sql_query, args: ['SELECT _status AS s, count(*) AS n FROM rows GROUP BY _status ORDER BY s']}"
    rows = run(_write(site.serve(PAGES), f"{{stage: join, args: [a]}}\n{TITLE}\n{query}"))
    assert rows == [{"s": 200, "n": 4}, {"s": 404, "n": 1}, {"s": 500, "n": 1}]


def test_columns_that_a_function_does_not_declare_are_no_exception(run: Run, site: Site) -> None:
    stages = f"{{stage: join, args: [a]}}\n{TITLE}\n{{stage: 'python_row_transform:keep'}}"
    source = "def keep(row):\n    return {'title': row['title']}\n"
    assert run(_write(site.serve(PAGES), stages), transforms={"keep": source}) == FOUND


@pytest.mark.parametrize("engine", [EngineName.LOCAL, pytest.param(EngineName.SPARK, marks=pytest.mark.long)])
def test_previews_have_the_rows_of_the_output(
    engine: EngineName, site: Site, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    text = _write(site.serve(PAGES), f"{{stage: join, args: [a]}}\n{TITLE}")
    plan = Pipeline.from_yaml(text).plan()
    assert find_spark_need(plan) is None
    context = RunContext(fetch=make_fetch_options(plan.options, ("127.0.0.0/8",)))
    with PlanRun(plan, context, 2) as run:
        if engine is EngineName.SPARK:
            spark: SparkSession = request.getfixturevalue("spark")
            result = SparkRunner(run, spark).write(str(tmp_path / "rows"))
        else:
            result = LocalRunner(run).write(str(tmp_path / "rows"))
        counts = run.get_counts()["s03_extract"]
    assert result.preview == FOUND[:2]
    assert result.output
    assert (result.output.rows, counts.rows) == (3, 6)


def test_a_trial_shows_the_rows_of_the_output(site: Site) -> None:
    plan = Pipeline.from_yaml(_write(site.serve(PAGES), f"{{stage: join, args: [a]}}\n{TITLE}")).plan()
    with open_trial(plan, 10) as trial:
        assert [row.values for row in trial.iter_shown_rows()] == FOUND
        assert [failure.step for failure in trial.failures] == ["s02_wgetJoin"] * 3
