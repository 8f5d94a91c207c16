"""The output mode history: one row per key and state, in every format."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from pipelines.contract.context import RunContext
from pipelines.contract.report import Changes, RunResult
from pipelines.contract.request import OUTPUT, Target
from pipelines.engine.run import Run
from pipelines.errors import PipelineError, RunError
from pipelines.language.formats import TABLE_FORMATS
from pipelines.pipeline import Pipeline
from pipelines.spark.runner import SparkRunner
from pipelines.tables.spark_tables import open_table
from tests.support.libraries import needs_libraries

FIRST = datetime(2026, 3, 1, 10, tzinfo=UTC)
TABLES = [pytest.param(name, marks=[pytest.mark.long, needs_libraries]) for name in ("delta", "iceberg")]
FORMATS = pytest.mark.parametrize("format_", ["parquet", *TABLES])
Prices = dict[str, int | None]


class Job:
    """A job whose output is a history; each run that publishes becomes the current version, a day after the last."""

    def __init__(self, spark: SparkSession, folder: Path, format_: str = "parquet") -> None:
        self.spark = spark
        self.folder = folder
        self.format = format_
        location = str(folder / "tables" / format_) if format_ in TABLE_FORMATS else None
        self.target = Target(location=location)
        self.runs = 0
        self.at = FIRST - timedelta(days=1)

    def run(
        self,
        text: str,
        *,
        more: str = "",
        stages: str = "",
        after: str = "",
        publish: bool = True,
        again: bool = False,
        **context: Any,
    ) -> RunResult:
        """Run over rows of CSV with the key `sku`; `again` is another attempt of the last execution."""
        self.runs += 1
        self.at += timedelta(days=0 if again else 1)
        (self.folder / "in.csv").write_text(text)
        pipeline = (
            f"pipeline: [{{stage: load_csv, args: [{{path: '{self.folder}/in.csv', schema: 'sku string, price int'}}]}}"
            f"{stages}]\n"
            f"output: {{format: {self.format}, mode: history, keys: [sku]{more}}}\n{after}"
        )
        folder = str(self.folder / f"output-{self.runs}")
        values = {"author": f"execution-{self.runs}", "accepted_at": self.at, "saves_folder": f"{folder}-saves"}
        context = {"targets": {OUTPUT: self.target}, **values, **context}
        with Run(Pipeline.from_yaml(pipeline).plan(), RunContext(**context)) as run:
            result = SparkRunner(run, self.spark).write(folder)
        self.spark.catalog.clearCache()
        if publish and result.output is not None:
            version = result.output.table
            self.target = replace(
                self.target,
                exists=True,
                format=self.format,
                columns=result.output.columns,
                paths=() if version else (folder,),
                snapshot=version.snapshot if version else None,
            )
        return result

    def run_prices(self, prices: Prices, **options: Any) -> RunResult:
        lines = [f"{sku},{'' if price is None else price}" for sku, price in prices.items()]
        return self.run("\n".join(["sku,price", *lines]) + "\n", **options)

    def read(self) -> DataFrame:
        if self.target.snapshot is not None and self.target.location is not None:
            return open_table(self.spark, self.format, self.target.location).read(self.target.snapshot)
        return self.spark.read.parquet(*self.target.paths)

    def list_states(self) -> list[tuple[Any, ...]]:
        """Return sku, price, the days of validity and whether it is current, in order."""
        rows = self.read().selectExpr(
            "sku", "price", "date_diff(valid_from, '2026-03-01')", "date_diff(valid_to, '2026-03-01')", "is_current"
        )
        return sorted((tuple(row) for row in rows.collect()), key=lambda row: (row[0], row[2]))

    def read_at(self, at: datetime) -> Prices:
        """Return the prices that were valid at a time."""
        return {
            row["sku"]: row["price"]
            for row in self.read()
            .where(f"valid_from <= '{at.isoformat()}' AND (valid_to IS NULL OR valid_to > '{at.isoformat()}')")
            .collect()
        }


@pytest.mark.long
@FORMATS
def test_a_history_keeps_each_state_of_a_key(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    job = Job(spark, tmp_path, format_)
    begun = job.run_prices({"a": 1, "b": 2, "c": None})
    assert begun.changes == Changes(added=3)
    assert job.list_states() == [("a", 1, 0, None, True), ("b", 2, 0, None, True), ("c", None, 0, None, True)]

    later = job.run_prices({"a": 1, "b": 3, "d": 4})
    assert later.changes == Changes(added=1, changed=1, retired=1)
    assert later.output.rows == 3
    assert job.list_states() == [
        ("a", 1, 0, None, True),
        ("b", 2, 0, 1, False),
        ("b", 3, 1, None, True),
        ("c", None, 0, 1, False),
        ("d", 4, 1, None, True),
    ]

    same = job.run_prices({"d": 4, "b": 3, "a": 1})
    assert (same.output, same.changes) == (None, Changes())
    assert not (tmp_path / "output-3").exists(), "without a difference nothing is written"

    back = job.run_prices({"a": 1, "b": 3, "c": 5, "d": 4})
    assert back.changes == Changes(added=1)
    assert ("c", 5, 3, None, True) in job.list_states()
    assert dict(job.target.columns)["valid_from"] == "timestamp"


@pytest.mark.long
@FORMATS
def test_an_attempt_that_was_not_published_changes_nothing(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    job = Job(spark, tmp_path, format_)
    job.run_prices({"a": 1})
    job.run_prices({"a": 2}, publish=False)  # killed between its commit and its publication
    job.run_prices({"a": 2}, again=True)
    assert job.list_states() == [("a", 1, 0, 1, False), ("a", 2, 1, None, True)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"limit": 10}, "the execution has a limit"),
        ({"stages": ", {stage: limit, args: [1]}"}, "the limit in line 1 was reached"),
    ],
    ids=["limit of the execution", "stage limit"],
)
def test_a_run_that_has_not_covered_its_source_retires_nothing(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, Any], reason: str
) -> None:
    job = Job(spark, tmp_path)
    job.run_prices({"a": 1, "b": 2})
    kept = job.run_prices({"a": 3}, **options)
    assert kept.changes == Changes(changed=1)
    assert ("b", 2, 0, None, True) in job.list_states()
    assert reason in caplog.text


@pytest.mark.long
def test_keys_of_rows_that_were_set_aside_are_not_missing(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    job.run_prices({"a": 1, "b": 2, "c": 3})
    checks = "checks: [{check: expression, sql: 'price > 0', severity: quarantine, maxShare: 0.5}]"
    changed = job.run_prices({"a": 5, "b": -2}, after=checks)
    assert (changed.changes, changed.rejected and changed.rejected.rows) == (Changes(changed=1, retired=1), 1)
    assert ("b", 2, 0, None, True) in job.list_states()


@pytest.mark.long
def test_what_vanished_may_be_kept_and_columns_be_ignored(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    job.run_prices({"a": 1, "b": 2})
    for column in ("price", "PRICE"):
        assert job.run_prices({"a": 7}, more=f", vanished: keep, ignore: [{column}]").changes == Changes()
    assert job.run_prices({"a": 7}, more=", vanished: keep").changes == Changes(changed=1)
    assert ("b", 2, 0, None, True) in job.list_states()


@pytest.mark.long
def test_a_column_that_one_side_alone_has_is_not_compared(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    job.run_prices({"a": 1, "b": 2})
    added = ", {stage: sql_query, args: ['SELECT *, upper(sku) AS name FROM rows']}"
    assert job.run_prices({"a": 1, "b": 3}, stages=added).changes == Changes(changed=1)
    rows = {(row["sku"], row["price"]): row["name"] for row in job.read().collect()}
    assert rows == {("a", 1): None, ("b", 2): None, ("b", 3): "B"}
    assert job.run_prices({"a": 1, "b": 3}).changes == Changes()


@pytest.mark.long
@pytest.mark.parametrize(
    ("rows", "found"),
    [("b,1\na,1\na,2\n", "'a'"), ("b,1\n,2\n", "no value in its key 'sku'")],
    ids=["a key twice", "a null in a key"],
)
def test_keys_that_do_not_tell_rows_apart_fail_before_anything_is_published(
    spark: SparkSession, tmp_path: Path, rows: str, found: str
) -> None:
    job = Job(spark, tmp_path)
    for _ in range(2):
        with pytest.raises(RunError, match=found):
            job.run(f"sku,price\n{rows}")
        job.run_prices({"b": 1})
    assert job.list_states() == [("b", 1, 1, None, True)]


@pytest.mark.long
def test_states_of_a_later_execution_are_not_overtaken(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    job.run_prices({"a": 1})
    begun = job.at
    for days in (3, 1):  # the run is a day later: at the same time as the first, two states would have no order
        job.at = begun - timedelta(days=days)
        with pytest.raises(RunError, match="run the job again"):
            job.run_prices({"a": 2})


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("{mode: history}", "missing-argument"),
        ("{mode: history, keys: [sku], format: csv}", "unsupported-mode"),
        ("{mode: history, keys: [sku], path: 's3://bucket/rows'}", "unsupported-mode"),
        ("{mode: history, keys: [sku], ignore: [sku]}", "conflicting-arguments"),
        ("{mode: merge, keys: [sku], vanished: keep}", "conflicting-arguments"),
        ("{mode: history, keys: [sku], vanished: never}", "unknown-value"),
        ("{mode: history, keys: [nothing]}", "unknown-column"),
    ],
)
def test_what_a_history_cannot_be_is_refused_when_it_is_written(output: str, code: str) -> None:
    assert code in find_codes("sku", output)


def test_columns_of_the_rows_have_other_names_than_those_of_a_history(spark: SparkSession, tmp_path: Path) -> None:
    assert find_codes("Valid_From", "{mode: history, keys: [Valid_From]}") == {"reserved-column"}
    job, named = Job(spark, tmp_path), ", {stage: sql_query, args: ['SELECT *, true AS is_current FROM rows']}"
    with pytest.raises(RunError, match="'is_current' is a column that the mode history adds"):
        job.run_prices({"a": 1}, stages=named)


def find_codes(column: str, output: str) -> set[str | None]:
    """Return the codes of the problems of a pipeline with one column and this output."""
    extract = f"{{stage: extract, args: [{{selector: h1, method: text, as: {column}}}]}}"
    with pytest.raises(PipelineError) as refused:
        Pipeline.from_yaml(f"fetch: {{url: 'http://site.test/'}}\npipeline: [{extract}]\noutput: {output}").plan()
    return {problem.code for problem in refused.value.problems}


RUNS = st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from([None, 1, 2]), max_size=3), max_size=4)


@pytest.mark.long
@FORMATS
@given(runs=RUNS)
@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_rows_of_each_run_come_back_at_its_time(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, format_: str, runs: list[Prices]
) -> None:
    job = Job(spark, tmp_path_factory.mktemp("history"), format_)
    for prices in ({"a": 1}, *runs):
        job.run_prices(prices)
        for earlier, wanted in enumerate(({"a": 1}, *runs)[: job.runs]):
            assert job.read_at(FIRST + timedelta(days=earlier)) == wanted
