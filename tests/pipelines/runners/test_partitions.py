"""The columns of a partition are equal on both runners, and what a run cannot write beside the others fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.contract.request import OUTPUT, Target
from pipelines.engine.run import Run
from pipelines.errors import PipelineError, RunError
from pipelines.local.runner import LocalRunner
from pipelines.planning.partition import add_partition
from pipelines.planning.plan import Plan
from pipelines.spark.runner import SparkRunner
from tests.support.runners import Runners

COLUMNS = {"country": "it", "day": "2026-01-01"}
LOAD = "pipeline:\n  - {stage: load_csv, args: ['%s']}\n"


def plan_rows(runners: Runners, folder: Path) -> Plan:
    (folder / "rows.csv").write_text("name,number\nLamp,1\ncup,2\n")
    return runners.plan(LOAD % (folder / "rows.csv"))


def test_both_runners_add_the_columns(runners: Runners, tmp_path: Path) -> None:
    plan = add_partition(plan_rows(runners, tmp_path), COLUMNS)
    outcome = runners.assert_equal(plan)
    assert outcome.failure is None
    assert outcome.columns == (("name", "string"), ("number", "string"), ("country", "string"), ("day", "string"))
    assert [row["day"] for row in outcome.preview] == ["2026-01-01", "2026-01-01"]
    assert plan.steps[-1].columns == plan.steps[-2].columns


def test_a_column_of_that_name_is_refused_or_fails(runners: Runners, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("name,day\nLamp,1\n")
    plan = add_partition(runners.plan(LOAD % (tmp_path / "rows.csv")), COLUMNS)
    outcome = runners.assert_equal(plan)
    assert outcome.failure is not None
    assert outcome.failure[0].startswith("partition country = 'it'")
    assert "column 'day' already" in outcome.failure[0]
    named = "pipeline:\n  - {stage: fetch, args: ['http://a.test/']}\n"
    named += "  - {stage: extract, args: [{selector: b, as: DAY}]}\n"
    with pytest.raises(PipelineError, match="column 'day' already"):
        add_partition(runners.plan(named), COLUMNS)


def test_rows_take_the_types_of_other_partitions(runners: Runners, spark: SparkSession, tmp_path: Path) -> None:
    plan = add_partition(plan_rows(runners, tmp_path), COLUMNS)
    others = (("NAME", "string"), ("number", "bigint"), ("country", "string"), ("day", "string"))
    for columns, reason in ((others, "'number' is bigint in the other partitions"), (others[:1] + others[2:], None)):
        target = Target(exists=True, format="parquet", columns=columns, fits_types=True)
        context = RunContext(targets={OUTPUT: target}, local_folders=(str(tmp_path),))
        for name, make in (("local", LocalRunner), ("spark", lambda run: SparkRunner(run, spark))):
            path = str(tmp_path / f"{name}{reason is None}")
            with Run(plan, context) as run:
                if reason:
                    with pytest.raises(RunError, match=reason):
                        make(run).write(path)
                else:
                    written = make(run).write(path).output
                    assert written is not None
                    assert written.columns[0] == ("NAME", "string")
