"""The output mode history: one row per key and state, on both runners and in every format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.contract.report import Changes, RunResult
from pipelines.contract.request import OUTPUT, Target
from pipelines.engine.run import Run
from pipelines.errors import NeedsSpark, PipelineError, RunError
from pipelines.language.formats import TABLE_FORMATS
from pipelines.local import history, table_output
from pipelines.local.engine_choice import find_spark_need
from pipelines.local.runner import LocalRunner
from pipelines.pipeline import Pipeline
from pipelines.spark.runner import SparkRunner
from pipelines.tables.spark_tables import open_table
from tests.support.libraries import needs_libraries

FIRST = datetime(2026, 3, 1, 10, tzinfo=UTC)
LOCAL = "without Spark"
ON_SPARK = [
    pytest.param("parquet", marks=pytest.mark.long),
    *(pytest.param(name, marks=[pytest.mark.long, needs_libraries]) for name in ("delta", "iceberg")),
]
LOCAL_TABLES = [pytest.param(f"{LOCAL}: {name}", marks=pytest.mark.long) for name in TABLE_FORMATS]
KINDS = pytest.mark.parametrize("kind", [LOCAL, *LOCAL_TABLES, *ON_SPARK])
RUNNERS = pytest.mark.parametrize("kind", [LOCAL, ON_SPARK[0]])
SCHEMA = pa.schema([("sku", pa.string()), ("price", pa.int32())])
Prices = dict[str, int | None]


class Job:
    """A job whose output is a history; each run that publishes becomes the current version, a day after the last.

    Its `kind` is the format that Spark writes, or LOCAL, with the format of a table.
    """

    def __init__(self, request: pytest.FixtureRequest, folder: Path, kind: str) -> None:
        is_local, _, format_ = kind.rpartition(": ") if kind != LOCAL else (LOCAL, "", "parquet")
        self.spark: SparkSession | None = None if is_local else request.getfixturevalue("spark")
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.format = format_
        location = str(folder / "tables" / format_) if format_ in TABLE_FORMATS else None
        self.target = Target(location=location)
        self.runs = 0
        self.at = FIRST - timedelta(days=1)

    def run(
        self,
        table: pa.Table,
        *,
        more: str = "",
        stages: str = "",
        after: str = "",
        publish: bool = True,
        again: bool = False,
        **context: Any,
    ) -> RunResult:
        """Run over rows with the key `sku`; `again` is another attempt of the last execution."""
        self.runs += 1
        self.at += timedelta(days=0 if again else 1)
        pq.write_table(table, self.folder / "in.parquet")
        pipeline = (
            f"pipeline: [{{stage: load_parquet, args: ['{self.folder}/in.parquet']}}{stages}]\n"
            f"output: {{format: {self.format}, mode: history, keys: [sku]{more}}}\n{after}"
        )
        folder = str(self.folder / f"output-{self.runs}")
        values = {"author": f"execution-{self.runs}", "accepted_at": self.at, "saves_folder": f"{folder}-saves"}
        context = {"targets": {OUTPUT: self.target}, **values, **context}
        plan = Pipeline.from_yaml(pipeline).plan()
        with Run(plan, RunContext(**context)) as run:
            if self.spark:
                result = SparkRunner(run, self.spark).write(folder)
                self.spark.catalog.clearCache()
            else:
                assert find_spark_need(plan) is None
                result = LocalRunner(run).write(folder)
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

    def run_prices(self, prices: Mapping[str, int | None], **options: Any) -> RunResult:
        return self.run(make_prices(*prices.items()), **options)

    def read(self) -> pa.Table:
        if self.target.snapshot is not None and self.target.location is not None:
            if self.spark is None:
                return table_output.open_table(self.format, self.target.location).read(self.target.snapshot)
            return open_table(self.spark, self.format, self.target.location).read(self.target.snapshot).toArrow()
        return pq.read_table(self.target.paths[0])

    def list_states(self) -> list[tuple[Any, ...]]:
        """Return sku, price, the days of validity and whether it is current, in order."""
        rows = (
            (row["sku"], row["price"], _count_days(row["valid_from"]), _count_days(row["valid_to"]), row["is_current"])
            for row in self.read().to_pylist()
        )
        return sorted(rows, key=lambda row: (row[0], row[2]))

    def read_at(self, at: datetime) -> Prices:
        """Return the prices that were valid at a time."""
        return {
            row["sku"]: row["price"]
            for row in self.read().to_pylist()
            if row["valid_from"] <= at and (row["valid_to"] is None or row["valid_to"] > at)
        }


def make_prices(*rows: tuple[str | None, int | None]) -> pa.Table:
    return pa.Table.from_pylist([{"sku": sku, "price": price} for sku, price in rows], SCHEMA)


def _count_days(at: datetime | None) -> int | None:
    return None if at is None else (at - FIRST).days


@KINDS
def test_a_history_keeps_each_state_of_a_key(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    job = Job(request, tmp_path, kind)
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


@KINDS
def test_an_attempt_that_was_not_published_changes_nothing(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    job = Job(request, tmp_path, kind)
    job.run_prices({"a": 1})
    job.run_prices({"a": 2}, publish=False)  # killed between its commit and its publication
    job.run_prices({"a": 2}, again=True)
    assert job.list_states() == [("a", 1, 0, 1, False), ("a", 2, 1, None, True)]


@RUNNERS
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"limit": 10}, "the execution has a limit"),
        ({"stages": ", {stage: limit, args: [1]}"}, "the limit in line 1 was reached"),
    ],
    ids=["limit of the execution", "stage limit"],
)
def test_a_run_that_has_not_covered_its_source_retires_nothing(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    kind: str,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, Any],
    reason: str,
) -> None:
    job = Job(request, tmp_path, kind)
    job.run_prices({"a": 1, "b": 2})
    kept = job.run_prices({"a": 3}, **options)
    assert kept.changes == Changes(changed=1)
    assert ("b", 2, 0, None, True) in job.list_states()
    assert reason in caplog.text


@RUNNERS
def test_keys_of_rows_that_were_set_aside_are_not_missing(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    job = Job(request, tmp_path, kind)
    job.run_prices({"a": 1, "b": 2, "c": 3})
    checks = "checks: [{check: not_null, columns: [price], severity: quarantine, maxShare: 0.5}]"
    changed = job.run_prices({"a": 5, "b": None}, after=checks)
    assert (changed.changes, changed.rejected and changed.rejected.rows) == (Changes(changed=1, retired=1), 1)
    assert ("b", 2, 0, None, True) in job.list_states()


@RUNNERS
def test_what_vanished_may_be_kept_and_columns_be_ignored(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    job = Job(request, tmp_path, kind)
    job.run_prices({"a": 1, "b": 2})
    for column in ("price", "PRICE"):
        assert job.run_prices({"a": 7}, more=f", vanished: keep, ignore: [{column}]").changes == Changes()
    assert job.run_prices({"a": 7}, more=", vanished: keep").changes == Changes(changed=1)
    assert ("b", 2, 0, None, True) in job.list_states()


@RUNNERS
def test_a_column_that_one_side_alone_has_is_not_compared(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    job = Job(request, tmp_path, kind)
    job.run_prices({"a": 1, "b": 2})
    added = ", {stage: sql_query, args: ['SELECT *, upper(sku) AS name FROM rows', {dialect: trino}]}"
    assert job.run_prices({"a": 1, "b": 3}, stages=added).changes == Changes(changed=1)
    rows = {(row["sku"], row["price"]): row["name"] for row in job.read().to_pylist()}
    assert rows == {("a", 1): None, ("b", 2): None, ("b", 3): "B"}
    assert job.run_prices({"a": 1, "b": 3}).changes == Changes()
    dialect = "" if job.spark else ", {dialect: trino}"  # only Spark has a type for nulls alone
    void = f", {{stage: sql_query, args: ['SELECT sku, NULL AS price FROM rows'{dialect}]}}"
    assert job.run_prices({"a": 1, "b": 3}, stages=void).changes == Changes(changed=2)
    assert job.read().schema.field("price").type == pa.int32()


@RUNNERS
@pytest.mark.parametrize(
    ("rows", "found"),
    [([("b", 1), ("a", 1), ("a", 2)], "'a'"), ([("b", 1), (None, 2)], "no value in its key 'sku'")],
    ids=["a key twice", "a null in a key"],
)
def test_keys_that_do_not_tell_rows_apart_fail_before_anything_is_published(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, rows: list[tuple[str | None, int | None]], found: str
) -> None:
    job = Job(request, tmp_path, kind)
    for _ in range(2):
        with pytest.raises(RunError, match=found):
            job.run(make_prices(*rows))
        job.run_prices({"b": 1})
    assert job.list_states() == [("b", 1, 1, None, True)]


TYPED = pa.table(
    {
        "sku": pa.array([1, 2, 3, 4], pa.int32()),
        "number": pa.array([1, None, 3, 4], pa.int16()),
        "part": pa.array([float("nan"), 0.0, None, 1.5], pa.float32()),
        "exact": pa.array([Decimal("1.10"), None, Decimal("2.20"), Decimal("0.00")], pa.decimal128(10, 2)),
        "day": [date(2026, 1, 1), None, date(1969, 1, 1), date(9999, 12, 31)],
        "at": pa.array([FIRST, None, FIRST, FIRST], pa.timestamp("us", "UTC")),
        "raw": [b"\x00", None, b"a", b""],
        "name": ["b", None, "a", "Köln"],
    }
)
LATER = [
    TYPED,
    TYPED.take([3, 2, 0]).set_column(2, "part", pa.array([1.5, None, float("nan")], pa.float64())),
    TYPED.take([1, 0])
    .set_column(2, "part", pa.array([-0.0, 2.5], pa.float32()))
    .set_column(0, "SKU", pa.array([2, 1], pa.int64()))
    .append_column("added", pa.array(["x", None])),
    TYPED.slice(1).drop_columns(["raw"]),
]


@pytest.mark.gate
@pytest.mark.long
def test_both_runners_write_the_same_history(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Of columns of all types that a file may have, with wider types, missing and new columns, NaN, -0.0 and nulls."""
    jobs = [Job(request, tmp_path / kind, kind) for kind in ("parquet", LOCAL)]
    for number, table in enumerate(LATER):
        results = [job.run(table, more=", vanished: keep" if number == 3 else "") for job in jobs]
        found, local = (
            (result.changes, result.preview, job.target.columns) for result, job in zip(results, jobs, strict=True)
        )
        assert found == local
        rows = [Counter(map(repr, job.read().to_pylist())) for job in jobs]
        assert rows[0] == rows[1]


def test_a_history_that_is_too_large_for_one_process_is_left_to_spark(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(request, tmp_path, LOCAL)
    job.run_prices({"a": 1, "b": 2})
    monkeypatch.setattr(history, "LOADED_ROWS", 1)
    with pytest.raises(NeedsSpark, match="more than 1 rows"):
        job.run_prices({"a": 1})
    assert job.list_states() == [("a", 1, 0, None, True), ("b", 2, 0, None, True)]


@RUNNERS
def test_states_of_a_later_execution_are_not_overtaken(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    job = Job(request, tmp_path, kind)
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


@RUNNERS
def test_columns_of_the_rows_have_other_names_than_those_of_a_history(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    assert find_codes("Valid_From", "{mode: history, keys: [Valid_From]}") == {"reserved-column"}
    job, named = (
        Job(request, tmp_path, kind),
        ", {stage: sql_query, args: ['SELECT *, true AS is_current FROM rows', {dialect: trino}]}",
    )
    with pytest.raises(RunError, match="'is_current' is a column that the mode history adds"):
        job.run_prices({"a": 1}, stages=named)


def find_codes(column: str, output: str) -> set[str | None]:
    """Return the codes of the problems of a pipeline with one column and this output."""
    extract = f"{{stage: extract, args: [{{selector: h1, method: text, as: {column}}}]}}"
    with pytest.raises(PipelineError) as refused:
        Pipeline.from_yaml(f"fetch: {{url: 'http://site.test/'}}\npipeline: [{extract}]\noutput: {output}").plan()
    return {problem.code for problem in refused.value.problems}


RUNS = st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from([None, 1, 2]), max_size=3), max_size=4)


@KINDS
@given(runs=RUNS)
@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_rows_of_each_run_come_back_at_its_time(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, kind: str, runs: list[Prices]
) -> None:
    job = Job(request, tmp_path_factory.mktemp("history"), kind)
    for prices in ({"a": 1}, *runs):
        job.run_prices(prices)
        for earlier, wanted in enumerate(({"a": 1}, *runs)[: job.runs]):
            assert job.read_at(FIRST + timedelta(days=earlier)) == wanted
