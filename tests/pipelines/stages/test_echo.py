"""echo: the first rows in the log and in the step's preview."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.engine.run import Run as PlanRun
from pipelines.pipeline import Pipeline
from pipelines.spark.runner import SparkRunner
from pipelines.stages.echo import Echo
from tests.support.pipelines import REVIEWS, Run, find_problem, load_table


@pytest.fixture
def load(tmp_path: Path) -> str:
    return load_table(tmp_path, REVIEWS, "")


def test_echo_logs_the_first_rows_and_passes_all_on(run: Run, load: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pipelines.stages.echo"):
        rows = run(load + "- {stage: echo, args: [2, loaded]}\n- {stage: Echo, args: {rows: 1}}")
    assert len(rows) == 5
    logged = [(line.fields["label"], line.fields["number"], line.fields["row"]["text"]) for line in caplog.records]  # type: ignore[attr-defined]
    assert logged == [("loaded", 1, "I love it"), ("loaded", 2, "Terrible and ugly"), (None, 1, "I love it")]


@pytest.mark.parametrize(
    ("args", "label", "rows"),
    [
        ("[loaded]", "loaded", 10),
        ("[5]", None, 5),
        ("['5']", None, 5),
        ("[5, loaded]", "loaded", 5),
        ("[loaded, 5]", "loaded", 5),
        ("[{label: loaded, rows: 5}]", "loaded", 5),
        ("[{label: loaded}]", "loaded", 10),
        ("loaded", "loaded", 10),
        ("[]", None, 10),
    ],
)
def test_echo_takes_a_label_a_number_or_both(load: str, args: str, label: str | None, rows: int) -> None:
    stage = Pipeline.from_yaml(load + f"- {{stage: echo, args: {args}}}").plan_open().steps[1].stage
    assert isinstance(stage, Echo)
    assert (stage.label, stage.rows) == (label, rows)


def test_echo_shows_its_rows_in_the_step(load: str, spark: SparkSession) -> None:
    plan = Pipeline.from_yaml(load + "- {stage: echo, args: [loaded]}\n- {stage: limit, args: [0]}").plan()
    with PlanRun(plan, preview_rows=2) as run:
        SparkRunner(run, spark).collect()
        shown = run.get_preview("s02_echo")
    assert [row["text"] for row in shown] == ["I love it", "Terrible and ugly"]


def test_echo_logs_its_label_even_without_rows(run: Run, load: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pipelines.stages.echo"):
        run(load + "- {stage: limit, args: [0]}\n- {stage: echo, args: [empty]}")
    assert [line.fields for line in caplog.records] == [{"label": "empty", "number": 0, "row": None}]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("{stage: echo, args: [0]}", "echo: 'rows': input should be greater than or equal to 1"),
        ("{stage: echo, args: [loaded, many]}", "echo: 'rows' must be a whole number"),
    ],
)
def test_wrong_arguments_are_problems_with_their_line(load: str, call: str, message: str) -> None:
    problem = find_problem(load + f"- {call}")
    assert problem.line == 3
    assert problem.message.startswith(message)
