"""Rows that checks set aside, and comparisons with earlier executions: equal on both runners."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipelines.contract.context import RunContext
from pipelines.contract.report import RunResult
from pipelines.contract.request import Figures
from pipelines.engine.run import Run
from pipelines.errors import PipelineError, RunError
from pipelines.local.engine_choice import choose_engine
from pipelines.pipeline import Pipeline
from pipelines.transforms.transform import Transforms
from tests.support.pipelines import Make, crawl, load_table

ROWS = "name,kind\nLamp,a\n,b\nCup,x\nRug,a\n,y\n" + "".join(f"more {number},a\n" for number in range(20))
KEEP = """
from typing import TypedDict

class Kept(TypedDict):
    name: str | None
    kind: str | None

def keep(row) -> Kept:
    return {"name": row["name"], "kind": row["kind"]}
"""
QUARANTINE = """checks:
- {check: not_null, columns: [name], severity: quarantine}
- {check: accepted_values, column: kind, values: [a, b], severity: quarantine}
- {check: expression, sql: "name <> 'Rug'", severity: quarantine}
- {check: row_count, max: 21}
"""
REJECTED = [
    (None, "b", "not_null name", "name is null"),
    ("Cup", "x", "accepted_values kind in a, b", "kind is 'x'"),
    ("Rug", "a", "expression name <> 'Rug'", "the expression is false"),
    (None, "y", "not_null name", "name is null"),
]
RunWith = Callable[..., tuple[RunResult, Run]]


@pytest.fixture
def run(make: Make, tmp_path: Path) -> RunWith:
    def run(checks: str, rows: str = ROWS, **context: Any) -> tuple[RunResult, Run]:
        text = load_table(tmp_path, rows, "- {stage: 'python_row_transform:keep'}\n" + checks)
        plan = Pipeline.from_yaml(text).plan(transforms=Transforms({"keep": KEEP}))
        assert not choose_engine(plan).runs_on_spark
        folder = Path(mkdtemp(dir=tmp_path))
        with Run(plan, RunContext(saves_folder=str(folder / "saves"), **context), 3) as one:
            return make(one).write(str(folder / "output")), one

    return run


def test_a_row_goes_aside_with_the_first_check_that_it_fails(run: RunWith, tmp_path: Path) -> None:
    result, done = run(QUARANTINE.replace("severity: quarantine", "severity: quarantine, maxShare: 0.2"))
    assert (result.output and result.output.rows, result.rejected and result.rejected.rows) == (21, 4)
    (folder,) = tmp_path.glob("*/saves")
    rejected = pq.read_table(folder / "rejected")
    assert rejected.column_names == ["name", "kind", "rejected_check", "rejected_reason"]
    assert [tuple(row.values()) for row in rejected.to_pylist()] == REJECTED
    assert pq.read_table(folder.parent / "output").column("name").to_pylist()[:2] == ["Lamp", "more 0"]
    assert [each.fault for each in done.check_results] == [None] * 4, "the other checks see what is left"
    assert [each.figures.get("rejected") for each in done.check_results] == [2, 1, 1, None]
    assert [row["name"] for row in result.preview] == ["Lamp", "more 0", "more 1"]


def test_a_run_without_failed_rows_has_an_empty_table_of_them(run: RunWith) -> None:
    result, _ = run(QUARANTINE, "name,kind\nLamp,a\nCup,b\n")
    assert result.rejected.rows == 0
    assert [name for name, _ in result.rejected.columns] == ["name", "kind", "rejected_check", "rejected_reason"]


def test_too_many_rows_aside_fail_the_run(run: RunWith) -> None:
    told = "2 of 25 rows would be set aside, for example because name is null, and at most 5%"
    with pytest.raises(RunError, match=told):
        run("checks: [{check: not_null, columns: [name], severity: quarantine, maxShare: 0.05}]")


def test_a_null_passes_an_expression(run: RunWith) -> None:
    run("""checks: [{check: expression, sql: "name <> 'nobody'"}]""")
    with pytest.raises(RunError, match="the expression is false in 1 of 25 rows"):
        run("""checks: [{check: expression, sql: "name <> 'Cup'"}]""")


@pytest.mark.parametrize(
    ("check", "code"),
    [
        ("{check: unique, columns: [name], severity: quarantine}", "unsupported-severity"),
        ("{check: row_count, min: 1, severity: quarantine}", "unsupported-severity"),
        ("{check: not_null, columns: [name], maxShare: 0.5}", "conflicting-arguments"),
        ("{check: not_null, columns: [rejected_reason], severity: quarantine}", "reserved-column"),
        ("{check: filled, column: name, over: 5}", "conflicting-arguments"),
        ("{check: expression, sql: 'price > '}", "invalid-sql"),
        ("{check: expression, sql: 'price > 0'}", "unknown-column"),
    ],
)
def test_what_checks_cannot_do_is_refused_when_it_is_written(check: str, code: str) -> None:
    extract = "{stage: extract, args: [{selector: h1, as: name}, {selector: b, as: rejected_reason}]}"
    with pytest.raises(PipelineError) as refused:
        Pipeline.from_yaml(crawl("http://site.test/", extract) + f"checks: [{check}]").plan()
    assert code in {problem.code for problem in refused.value.problems}


PAST = tuple(Figures(rows, {"name": 1.0}) for rows in (30, 30, 50))


FEW, MANY = (Figures(10),) * 3, (Figures(25),) * 3 + (Figures(90),) * 4
COMPARED: list[tuple[tuple[Figures, ...], dict[str, str | None]]] = [
    (PAST, {
        "row_count, min: 25": None,
        "row_count, max: 25": None,
        "row_count, maxDrop: 0.2": None,
        "row_count, maxDrop: 0.1": "25 rows, and the last 3 executions a median of 30: it may drop by",
        "row_count, maxRise: 0.5": None,
        "filled, column: name, maxDrop: 0.1": None,
        "filled, column: name, maxDrop: 0.05": "name is filled in 92.0% of the rows",
        "filled, column: name, maxDrop: 0.1, min: 0.95": "and should be in 95% of them",
    }),
    (PAST[:2], {"row_count, maxRise: 0.5": None}),
    (FEW, {"row_count, maxRise: 0.5": "25 rows, and the last 3 executions a median of 10"}),
    (MANY, {"row_count, maxDrop: 0.1, over: 3": None}),
]  # fmt: skip


def test_figures_are_compared_with_the_median_of_earlier_executions(run: RunWith) -> None:
    for past, faults in COMPARED:
        checks = "".join(f"- {{check: {check}, severity: warn}}\n" for check in faults)
        _, done = run(f"checks:\n{checks}", past=past)
        found = {check: each.fault for check, each in zip(faults, done.check_results, strict=True)}
        wrong = {check: told for check, told in found.items() if not _is_told(told, faults[check])}
        assert wrong == {}, past
    with pytest.raises(RunError, match="a median of 10"):
        run("checks: [{check: row_count, maxRise: 0.5}]", past=FEW)


def _is_told(found: str | None, expected: str | None) -> bool:
    return found is None if expected is None else expected in (found or "")


@pytest.mark.parametrize(
    ("context", "note"),
    [
        ({}, "only a service knows earlier executions"),
        ({"past": PAST[:2]}, "2 published executions have this figure, and 3 are needed"),
        ({"past": PAST, "limit": 5}, "this one has a limit"),
    ],
    ids=["without a service", "too few", "with a limit"],
)
def test_a_check_that_compares_nothing_passes_and_says_so(
    run: RunWith, caplog: pytest.LogCaptureFixture, context: dict[str, Any], note: str
) -> None:
    caplog.set_level("INFO")
    _, done = run("checks: [{check: row_count, maxDrop: 0.1}]", **context)
    assert not done.check_results[0].failed
    assert note in caplog.text


def test_figures_are_those_of_the_rows_that_are_left(run: RunWith) -> None:
    checks = "checks: [{check: not_null, columns: [name], severity: quarantine}, {check: filled, column: name}]"
    result, done = run(checks)
    assert done.build_figures(result.output.rows) == Figures(23, {"name": 1.0})
