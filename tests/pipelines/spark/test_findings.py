"""What a run says about its selectors and its output: counts of pages without a match, required ones, checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from driver.progress import RunProgress
from pipelines.engine.run import Run
from pipelines.errors import RunError
from pipelines.pipeline import Pipeline
from pipelines.spark.runner import SparkRunner
from pipelines.transforms.transform import Transforms
from tests.support.pipelines import Make, make_context
from tests.support.site import Site

PAGES: dict[str, str | int] = {
    "/": "<a href=/1>1</a><a href=/2>2</a><a href=/3>3</a><a href=/4>4</a><a href=/1>1 again</a>",
    "/1": "<li class=product><a href=/x>Lamp</a></li><li class=product><a href=/y>Cup</a><b>2</b></li>",
    "/2": "<li class=product><a href=/x>Lamp</a></li>",
    "/3": "<p>sold out</p>",
    "/4": 404,
}
FLAT = "[li.product, [{selector: a, as: name}, {selector: b, as: price}, {selector: i, as: none}]]"
COPY = "{stage: extract, args: [{field: name, as: copy}]}"
HALF = "def half(row) -> {'half': float}:\n  return {'half': float(row['name'])}"
ROWS = "name,price,at\nLamp,1,2020-01-01T00:00:00Z\nCup,,2020-01-02T00:00:00Z\nLamp,30, \n"
PASSED = """
- {check: row_count, min: 3, max: 3}
- {check: not_null, columns: [name]}
- {check: unique, columns: [name, price]}
- {check: unique, columns: price}
- {check: accepted_values, column: name, values: [Lamp, Cup]}
- {check: accepted_values, column: price, values: [1, 30.0]}
- {check: filled, column: at, min: 0.6}
- {check: freshness, column: at, hours: 1000000}
"""
FAILED = {
    "{check: row_count, min: 4}": "the output has 3 rows, and should have at least 4",
    "{check: row_count, max: 2}": "the output has 3 rows, and should have at most 2",
    "{check: not_null, columns: [name, price]}": "price is null in 1 of 3 rows",
    "{check: unique, columns: [name]}": "name repeats an earlier row in 1 of 3 rows",
    "{check: accepted_values, column: name, values: [Lamp, 1]}": "name has other values in 1 of 3 rows, such as 'Cup'",
    "{check: accepted_values, column: price, values: ['30']}": "price has other values in 1 of 3 rows, such as '1'",
    "{check: filled, column: at, min: 0.7}": "at is filled in 2 of 3 rows, and should be in 70% of them",
    "{check: freshness, column: at, hours: 24}": "the newest at is 2020-01-02 00:00 UTC, more than 24 hours ago",
    "{check: freshness, column: name, hours: 24}": "name has no time in any row",
}


def make_run(text: str, limit: int | None = None) -> tuple[Run, RunProgress]:
    plan = Pipeline.from_yaml(text).plan(transforms=Transforms({"half": HALF}))
    run = Run(plan, make_context(plan, limit=limit))
    return run, RunProgress(plan, run)


def test_each_selector_counts_its_pages_and_those_without_a_match(make: Make, site: Site, tmp_path: Path) -> None:
    base = site.serve(PAGES)
    stages = f"[{{stage: join, args: [a]}}, {{stage: flatSelect, args: {FLAT}}}, {COPY}]"
    run, progress = make_run(f"fetch: {{url: '{base}/'}}\npipeline: {stages}")
    with run:
        make(run).write(str(tmp_path / "rows"))
        progress.finish("COMPLETED")
        _, _, stage, copy, _ = progress.list_stages()
    found = {each.column or each.selector: (each.pages, each.empty) for each in stage.selectors}
    assert found == {"li.product": (3, 1), "name": (3, 1), "price": (3, 2), "none": (3, 3)}
    assert not copy.selectors
    warning = "line 2: flatSelect: selector i (column none) found nothing on 3 of 3 pages"
    assert stage.warnings == progress.list_warnings() == [warning]


def test_values_that_do_not_fit_their_casts_are_counted(make: Make, site: Site, tmp_path: Path) -> None:
    items = "<li><b>1</b><i>x</i></li><li><b>two</b><i>3</i></li><li><b>three</b><i> </i></li>"
    base = site.serve({"/": items})
    casts = "[li, {selector: b, cast: int, as: b}, {selector: i, cast: double, as: i}, {selector: u, cast: int, as: u}]"
    run, progress = make_run(f"fetch: {{url: '{base}/'}}\npipeline: [{{stage: flatSelect, args: {casts}}}]")
    with run:
        make(run).write(str(tmp_path / "rows"))
        progress.finish("COMPLETED")
        _, stage, _ = progress.list_stages()
    assert [(each.column, each.empty, each.unfit) for each in stage.selectors] == [
        (None, 0, 0),
        ("b", 0, 2),
        ("i", 0, 1),
        ("u", 1, 0),
    ]


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [
        ("{stage: flatSelect, args: [li.produkt, [{selector: a}], {required: true}]}",
         "flatSelect: selector li.produkt"),
        ("{stage: flatSelect, args: [li.produkt]}, {stage: extract, args: [{selector: a, required: 'true'}]}",
         "flatSelect: selector li.produkt"),
        ("{stage: extract, args: [{method: 'attr:x', as: x, required: true}]}", "extract: column x"),
        ("{stage: extract, args: [{selector: b, required: true}]}", None),
    ],
)  # fmt: skip
def test_a_required_selector_without_any_match_fails_the_run(
    make: Make, site: Site, tmp_path: Path, stages: str, sentence: str | None
) -> None:
    run, _ = make_run(f"fetch: {{url: '{site.serve(PAGES)}/'}}\npipeline: [{{stage: join, args: [a]}}, {stages}]")
    with run:
        if sentence is None:
            make(run).write(str(tmp_path / "rows"))
            return
        with pytest.raises(RunError) as error:
            make(run).write(str(tmp_path / "rows"))
    assert str(error.value) == f"line 2: {sentence} found nothing on 3 of 3 pages"


def test_a_required_selector_without_any_match_saves_nothing(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    save = f"{{stage: save_csv, args: ['{tmp_path}/saved']}}"
    stages = f"[{{stage: extract, args: [{{selector: nav, required: true}}]}}, {save}]"
    run, _ = make_run(f"fetch: {{url: '{site.serve(PAGES)}/'}}\npipeline: {stages}")
    with run, pytest.raises(RunError, match="found nothing"):
        SparkRunner(run, spark).write(str(tmp_path / "rows"))
    assert not (tmp_path / "saved").exists()


def test_a_required_selector_needs_no_match_where_no_page_was_read(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("page\n")
    extract = "{stage: extract, args: [{selector: h1, required: true}]}"
    run, progress = make_run(
        f"pipeline: [{{stage: load_csv, args: ['{tmp_path}/a.csv']}}, {{stage: wget, args: [$page]}}, {extract}]\n"
        "checks: [{check: not_null, columns: [page]}, {check: filled, column: page},"
        " {check: freshness, column: page, hours: 1}, {check: accepted_values, column: page, values: [x]}]"
    )
    with run:
        assert SparkRunner(run, spark).write(str(tmp_path / "rows")).output.rows == 0
        assert progress.list_warnings() == []
        assert len(run.check_results) == 4


def test_a_failed_check_names_the_selectors_that_found_nothing(make: Make, site: Site, tmp_path: Path) -> None:
    run, progress = make_run(
        f"fetch: {{url: '{site.serve(PAGES)}/'}}\npipeline:\n"
        "- {stage: flatSelect, args: [li.produkt, {selector: a}]}\n"
        "- {stage: wget, args: [$text]}\nchecks: [{check: row_count, min: 2}]"
    )
    with run:
        with pytest.raises(RunError) as error:
            make(run).write(str(tmp_path / "rows"))
        progress.finish("FAILED")
        states = [stage.state for stage in progress.list_stages()]
    row_count = "line 5: check row_count: the output has 1 row, and should have at least 2"
    assert str(error.value) == f"{row_count}; line 3: flatSelect: selector li.produkt found nothing on 1 of 1 page"
    assert states == ["COMPLETED", "COMPLETED", "COMPLETED", "FAILED"]


@pytest.mark.long
def test_checks_of_the_output_fail_the_run_or_warn(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(ROWS)
    load = f"pipeline: [{{stage: load_csv, args: ['{tmp_path}/a.csv']}}]\n"
    run, _ = make_run(f"{load}checks:{PASSED}")
    with run:
        SparkRunner(run, spark).write(str(tmp_path / "[passed]"))
        assert [each.fault for each in run.check_results] == [None] * 8
    run, _ = make_run(f"{load}checks: [{', '.join(FAILED)}]")
    with run, pytest.raises(RunError) as error:
        SparkRunner(run, spark).collect_ordered()
    names = [text.partition(": ")[2].partition(",")[0] for text in FAILED]
    faults: list[Any] = [f"line 2: check {name}: {fault}" for name, fault in zip(names, FAILED.values(), strict=True)]
    assert str(error.value).split("; ") == faults
    run, progress = make_run(f"{load}checks: [{', '.join(each[:-1] + ', severity: warn}' for each in FAILED)}]")
    with run:
        assert SparkRunner(run, spark).collect().count() == 3
        assert progress.list_warnings() == faults
        assert [(each.severity, each.passed) for each in progress.build_report().checks] == [("warn", False)] * len(
            FAILED
        )


def test_a_limited_run_need_not_have_as_many_rows(make: Make, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(ROWS)
    run, _ = make_run(
        f"pipeline: [{{stage: load_csv, args: ['{tmp_path}/a.csv']}}]\nchecks: [{{check: row_count, min: 9}}]", 2
    )
    with run:
        assert make(run).write(str(tmp_path / "rows")).output.rows == 2


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [
        (
            "- {stage: filter, args: [name > 'A']}\n"
            "- {stage: sql_query, args: ['SELECT *, assert_true(price > 9) FROM rows']}",
            "line 4: sql_query: Spark refused: '(price > 9)' is not true!",
        ),
        (
            "- {stage: filter, args: ['CAST(name AS INT) > 1']}\n- {stage: dedup, args: [name]}",
            "line 3: filter: Spark refused: The value 'Lamp' of the type \"STRING\" cannot be cast",
        ),
        (
            "- {stage: filter, args: [name > 'A']}\n- {stage: 'python_row_transform:half', args: {onError: fail}}",
            "line 4: python_row_transform:half: line 2: ValueError: could not convert string to float",
        ),
    ],
)
def test_an_error_in_the_rows_names_the_stage_and_its_line(
    spark: SparkSession, tmp_path: Path, stages: str, sentence: str
) -> None:
    (tmp_path / "a.csv").write_text(ROWS)
    run, _ = make_run(f"pipeline:\n- {{stage: load_csv, args: ['{tmp_path}/a.csv']}}\n{stages}\n")
    with run, pytest.raises(RunError) as error:
        SparkRunner(run, spark).write(str(tmp_path / "rows"))
    assert str(error.value).startswith(sentence)
