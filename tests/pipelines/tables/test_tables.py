"""Delta and Iceberg tables, written by each runner and by both in turns.

Modes, schema evolution, abandoned commits, and other programs that read the tables.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from pipelines.columns.types import parse_type
from pipelines.contract.context import RunContext
from pipelines.contract.report import WrittenFiles
from pipelines.contract.request import OUTPUT, Target
from pipelines.engine.partial_run import GrownOver
from pipelines.engine.run import Run
from pipelines.errors import PipelineError, RunError
from pipelines.language.engines import Growth
from pipelines.local import table_output
from pipelines.local.engine_choice import find_spark_need
from pipelines.local.runner import LocalRunner
from pipelines.pipeline import Pipeline
from pipelines.spark.runner import SparkRunner
from pipelines.tables.protocol import SparkOnly
from pipelines.tables.snapshots import parse_iceberg_snapshot
from pipelines.tables.spark_tables import DELTA_AUTHOR, open_table
from tests.support.libraries import needs_libraries

pytestmark = needs_libraries
TABLES = pytest.mark.parametrize("format_", ["delta", "iceberg"])
Rows = list[dict[str, Any]]


class Job:
    """Runs pipelines that write one table, as a job's executions do; the last version is the published one.

    The runners take turns. Spark goes on with the runs that have `grown` over to it.
    """

    def __init__(self, spark: SparkSession, folder: Path, format_: str, runners: Sequence[str] = ("spark",)) -> None:
        self.spark = spark
        self.order, self.runners = runners, cycle(runners)
        self.grown: list[str] = []
        self.folder = folder
        self.format = format_
        self.location = str(folder / "tables" / "job" / format_)
        self.target = Target(location=self.location)
        self.runs = 0

    def run(self, rows: str, mode: str = "overwrite", publish: bool = True, more: str = "", **context: Any) -> Any:
        """Write the rows, in CSV with types in the header, and return what was written."""
        header, *lines = rows.split()
        names, types = zip(*(each.split(":") for each in header.split(",")), strict=True)
        cells = zip(*(line.split(",") for line in lines), strict=True) if lines else [()] * len(names)
        columns = [
            pa.array([cell or None for cell in column], pa.string()).cast(parse_type(type_))
            for column, type_ in zip(cells, types, strict=True)
        ]
        return self.run_table(pa.table(columns, names=names), mode, publish, more, **context)

    def run_table(
        self, rows: pa.Table, mode: str = "overwrite", publish: bool = True, more: str = "", **context: Any
    ) -> Any:
        """Write rows and return what was written."""
        self.runs += 1
        pq.write_table(rows, self.folder / "in.parquet")
        text = (
            f"pipeline: [{{stage: load_parquet, args: ['{self.folder}/in.parquet']}}]\n"
            f"output: {{format: {self.format}, mode: {mode}{', ' if more else ''}{more}}}"
        )
        values = {"author": f"execution-{self.runs}", **context}
        with Run(Pipeline.from_yaml(text).plan(), RunContext(targets={OUTPUT: self.target}, **values)) as run:
            result = self.write(run)
        self.spark.catalog.clearCache()
        if publish and result is not None:
            self.publish(result)
        return result

    def write(self, run: Run) -> WrittenFiles | None:
        folder, partial_run = str(self.folder / f"output-{self.runs}"), None
        if next(self.runners) == "local":
            assert find_spark_need(run.plan) is None
            try:
                return LocalRunner(run, Growth()).write(folder).output
            except GrownOver as grown:
                self.grown.append(str(grown))
                partial_run = grown.partial_run
        return SparkRunner(run, self.spark, partial_run).write(folder).output

    def publish(self, written: WrittenFiles) -> None:
        self.target = replace(
            self.target, restored=False, exists=True, format=self.format, snapshot=written.table.snapshot,
            columns=written.columns,
        )  # fmt: skip

    def restore(self, written: WrittenFiles) -> None:
        """Make an earlier version the published one, as the service does without Spark."""
        self.publish(written)
        self.target = replace(self.target, restored=True)

    def read(self, snapshot: str | None = None) -> Rows:
        """Read a version, by default the published one, with a library that is not Spark's."""
        snapshot = snapshot or self.target.snapshot or ""
        if self.format == "delta":
            table = DeltaTable(self.location, version=int(snapshot)).to_pyarrow_table()
        else:
            file = f"{self.location}/metadata/{parse_iceberg_snapshot(snapshot).file}"
            table = StaticTable.from_metadata(file).scan().to_arrow()
        return sort(table.to_pylist())


def sort(rows: Sequence[dict[str, Any]]) -> Rows:
    return sorted(rows, key=lambda row: row["id"])


@pytest.fixture(
    params=[
        "local",
        "spark",
        pytest.param("local, spark", marks=pytest.mark.long),
        pytest.param("spark, local", marks=pytest.mark.long),
    ]
)
def job(spark: SparkSession, tmp_path: Path, format_: str, request: pytest.FixtureRequest) -> Iterator[Job]:
    job = Job(spark, tmp_path, format_, request.param.split(", "))
    yield job
    assert not job.grown


@TABLES
def test_every_mode_gives_a_version_that_others_read(job: Job, format_: str) -> None:
    first = job.run("id:bigint,name:string 1,a 2,b")
    appended = job.run("id:bigint,name:string 3,c", "append")
    merged = job.run("id:int,price:double 2,1.5 4,2.5", "merge", more="keys: [id]")
    rows = [
        {"id": 1, "name": "a", "price": None},
        {"id": 2, "name": "b", "price": 1.5},
        {"id": 3, "name": "c", "price": None},
        {"id": 4, "name": None, "price": 2.5},
    ]
    assert job.read() == rows
    counts = [(written.rows, written.table.rows) for written in (first, appended, merged)]
    assert counts == [(2, 2), (1, 3), (2, 4)]
    assert all(written.table.bytes > 0 for written in (first, appended, merged))
    assert dict(merged.columns) == {"id": "bigint", "name": "string", "price": "double"}
    replaced = job.run("id:string x", "overwrite")
    assert job.read() == [{"id": "x"}]
    assert job.read(first.table.snapshot) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    assert [row["id"] for row in job.read(appended.table.snapshot)] == [1, 2, 3]
    assert job.read(merged.table.snapshot) == rows
    assert replaced.table.rows == 1


@TABLES
def test_a_merge_within_a_column_removes_rows_of_other_keys(job: Job, format_: str) -> None:
    job.run("id:bigint,page:string,n:int 1,a,1 2,a,1 3,b,1 4,,1")
    job.run("id:bigint,page:string,n:int,more:int 1,a,2,9 5,a,2,9 6,,2,9", "merge", more="keys: [id], within: page")
    rows = [(1, "a", 2, 9), (3, "b", 1, None), (4, None, 1, None), (5, "a", 2, 9), (6, None, 2, 9)]
    assert [tuple(row.values()) for row in job.read()] == rows


@pytest.mark.long
@TABLES
def test_duckdb_reads_the_tables_in_place(job: Job, format_: str) -> None:
    job.run("id:bigint,name:string 1,a 2,b", more="partitionBy: [name]")
    job.run("id:bigint,name:string 3,c", "append")
    files = f"{job.location}/**/*.parquet"
    (count,) = duckdb.sql(f"SELECT count(*) FROM read_parquet('{files}', hive_partitioning = true)").fetchone() or ()
    assert count == 3
    assert [row["name"] for row in job.read()] == ["a", "b", "c"]


@pytest.mark.long
@TABLES
def test_a_type_that_does_not_fit_names_both(job: Job, format_: str) -> None:
    job.run("id:bigint,price:double 1,1.5")
    with pytest.raises(RunError, match=r"'price' is double in the dataset and string in the new rows"):
        job.run("id:bigint,price:string 2,cheap", "append")
    assert job.read() == [{"id": 1, "price": 1.5}]
    job.run("ID:int,price:float 2,2.5", "append")
    assert job.read() == [{"id": 1, "price": 1.5}, {"id": 2, "price": 2.5}]


@pytest.mark.long
@TABLES
def test_an_abandoned_commit_is_taken_back(job: Job, format_: str) -> None:
    job.run("id:bigint 1")
    job.run("id:bigint,extra:string 2,x", "append", publish=False)
    job.run("id:bigint 3", "append")
    assert job.read() == [{"id": 1}, {"id": 3}]
    job.run("id:string y", "overwrite", publish=False)
    job.run("id:bigint 4", "append")
    assert job.read() == [{"id": 1}, {"id": 3}, {"id": 4}]


@TABLES
def test_a_first_commit_that_was_abandoned_is_replaced(job: Job, format_: str) -> None:
    job.run("id:bigint 1", "append", publish=False)
    job.run("id:bigint 2", "append")
    assert job.read() == [{"id": 2}]


@pytest.mark.long
@TABLES
def test_commits_of_a_running_execution_stay(job: Job, format_: str) -> None:
    job.run("id:bigint 1")
    job.run("id:bigint 2", "append", publish=False)
    job.target = replace(job.target, writers=("execution-2",))
    job.run("id:bigint 3", "append")
    assert job.read() == [{"id": 1}, {"id": 2}, {"id": 3}]


@pytest.mark.long
@pytest.mark.parametrize(("format_", "mode"), [("delta", "append"), ("iceberg", "merge")])
def test_a_restored_version_is_continued_past_all_later_commits(job: Job, format_: str, mode: str) -> None:
    first = job.run("id:bigint,name:string 1,a")
    later = job.run("id:bigint,name:string,price:double 2,b,1.5", "append")
    foreign = job.spark.createDataFrame([(8, "z")], "id bigint, name string")
    open_table(job.spark, format_, job.location).append(foreign)
    job.restore(first)
    assert job.read() == [{"id": 1, "name": "a"}]
    job.run("id:bigint,name:string 3,c", mode, publish=False, more="keys: [id]" if mode == "merge" else "")
    next_ = job.run("id:bigint,name:string 4,d", mode, more="keys: [id]" if mode == "merge" else "")
    assert job.read() == [{"id": 1, "name": "a"}, {"id": 4, "name": "d"}]
    assert next_.columns == first.columns
    assert [row["id"] for row in job.read(later.table.snapshot)] == [1, 2]
    if format_ == "iceberg":
        reader = job.spark.read.format("iceberg").option("versionAsOf", later.table.snapshot.partition("#")[2])
        assert reader.load(job.location).count() == 2, "the log keeps what a later restore may name"
    open_table(job.spark, format_, job.location).append(foreign)
    job.run("id:bigint,name:string 5,e", mode, more="keys: [id]" if mode == "merge" else "")
    assert [row["id"] for row in job.read()] == [1, 4, 5, 8], "the next version keeps what others add, as before"


@pytest.mark.parametrize("format_", ["delta"])
def test_a_restore_starts_no_job_of_spark(job: Job) -> None:
    first = job.run("id:bigint 1")
    job.run("id:string x", publish=False)
    job.spark.sparkContext.setJobGroup("restore", "restore")
    job.spark.conf.set(DELTA_AUTHOR, "execution-3:1")
    try:
        open_table(job.spark, "delta", job.location).restore(first.table.snapshot)
    finally:
        job.spark.conf.unset(DELTA_AUTHOR)
        job.spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # pyright: ignore[reportArgumentType]
    assert not job.spark.sparkContext.statusTracker().getJobIdsForGroup("restore")
    assert open_table(job.spark, "delta", job.location).read_columns() == first.columns
    assert DeltaTable(job.location).history(1)[0]["userMetadata"] == "execution-3:1"
    assert (job.read(), job.read("2")) == ([{"id": 1}], [{"id": 1}])


@pytest.mark.long
@pytest.mark.parametrize("format_", ["delta"])
def test_partitions_that_deltalake_spells_otherwise_are_taken_back(job: Job) -> None:
    job.run("id:bigint,city:string 1,Köln", more="partitionBy: [city]")
    job.run("id:bigint,city:string 2,Köln", "append", publish=False)
    job.run("id:bigint,city:string 3,Köln", "append")
    assert [row["id"] for row in job.read()] == [1, 3]
    grown = {"local": 0, "spark": 0, "local, spark": 1, "spark, local": 1}[", ".join(job.order)]
    assert all(SparkOnly.PATHS in sentence for sentence in job.grown)
    assert len(job.grown) == grown
    job.grown.clear()


@pytest.mark.long
@TABLES
def test_executions_at_the_same_time_continue_a_restored_version_together(job: Job, format_: str) -> None:
    first = job.run("id:bigint 1")
    job.run("id:bigint 2", "append")
    job.restore(first)
    job.run("id:bigint 3", "append", publish=False)
    job.target = replace(job.target, writers=("execution-3",))
    job.run("id:bigint 4", "append")
    assert job.read() == [{"id": 1}, {"id": 3}, {"id": 4}]


@TABLES
@pytest.mark.parametrize("mode", ["append", "merge"])
def test_of_two_first_runs_both_are_kept(job: Job, monkeypatch: pytest.MonkeyPatch, format_: str, mode: str) -> None:
    keys = "keys: [id]" if mode == "merge" else ""
    job.run("id:bigint,name:string 1,a 2,b", mode, publish=False, more=keys)
    job.target = replace(job.target, writers=("execution-1",))
    spark, local = open_table(job.spark, format_, job.location), table_output.open_table(format_, job.location)
    kind = type(spark if next(job.runners) == "spark" else local)
    looks, exists = iter([False] * (4 if kind is type(local) else 2)), kind.exists  # before the other run's commit
    monkeypatch.setattr(kind, "exists", lambda table: next(looks, exists(table)))
    job.run("id:bigint,name:string 2,c 3,d 4,e", mode, more=keys)
    expected = "1a 2c 3d 4e" if mode == "merge" else "1a 2b 2c 3d 4e"
    assert sorted(f"{row['id']}{row['name']}" for row in job.read()) == expected.split()


@pytest.mark.parametrize("format_", ["iceberg"])
def test_a_commit_while_the_driver_was_starting_is_kept(job: Job) -> None:
    job.target = replace(job.target, listed_at=int(time.time() * 1000))
    job.run("id:bigint 1", "append", publish=False)  # by an execution that was queued when the writers were listed
    job.run("id:bigint 2", "append")
    assert job.read() == [{"id": 1}, {"id": 2}]


@TABLES
def test_error_and_ignore_leave_what_there_is(job: Job, format_: str) -> None:
    assert job.run("id:bigint 1", "error").rows == 1
    with pytest.raises(RunError, match="has rows already"):
        job.run("id:bigint 2", "error")
    assert job.run("id:bigint 2", "ignore") is None
    assert job.read() == [{"id": 1}]


@TABLES
def test_a_merge_of_equal_keys_is_refused(job: Job, format_: str) -> None:
    job.run("id:bigint 1")
    with pytest.raises(RunError, match=r"several rows have the same keys \(id 2"):
        job.run("id:bigint 2 2", "merge", more="keys: [id]")
    job.run("id:bigint", "append")
    assert job.read() == [{"id": 1}]


@TABLES
def test_failed_checks_commit_nothing(job: Job, format_: str) -> None:
    job.run("id:bigint 1")
    text = (
        f"pipeline: [{{stage: load_parquet, args: ['{job.folder}/in.parquet']}}]\n"
        f"output: {{format: {format_}}}\nchecks: [{{check: row_count, min: 9}}]"
    )
    before = {*Path(job.location).rglob("*.json")}
    context = RunContext(targets={OUTPUT: job.target})
    with Run(Pipeline.from_yaml(text).plan(), context) as run, pytest.raises(RunError):
        job.write(run)
    assert {*Path(job.location).rglob("*.json")} == before


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("{mode: merge, keys: [name], partitionBy: [name]}", "unsupported-mode"),
        ("{mode: merge, format: delta}", "missing-argument"),
        ("{mode: append, keys: [name], format: delta}", "conflicting-arguments"),
        ("{format: orc}", "unknown-value"),
        ("{mode: merge, format: delta, keys: [nothing]}", "unknown-column"),
        ("{partitionBy: [_url]}", "reserved-column"),
    ],
)
def test_an_impossible_output_is_a_problem_of_the_text(output: str, code: str) -> None:
    text = "fetch: {url: https://example.com/}\npipeline: [{stage: extract, args: [{selector: h1, as: name}]}]\n"
    with pytest.raises(PipelineError) as error:
        Pipeline.from_yaml(f"{text}output: {output}").plan()
    assert [each.code for each in error.value.problems] == [code]


EXTRACTED = (
    "fetch: {url: https://example.com/}\npipeline:\n- {stage: extract, args: [{selector: h1, as: 'unit price'}]}\n"
)


@pytest.mark.parametrize(
    ("more", "place"), [("output: {format: delta}", "output"), ("- {stage: save_delta, args: [goods]}", "pipeline[1]")]
)
def test_check_refuses_names_that_delta_cannot_have(more: str, place: str) -> None:
    with pytest.raises(PipelineError) as error:
        Pipeline.from_yaml(EXTRACTED + more).plan()
    (problem,) = error.value.problems
    assert (problem.code, problem.path) == ("invalid-column-name", place)
    assert "cannot have the column 'unit price'" in problem.message
    Pipeline.from_yaml(EXTRACTED + more.replace("delta", "iceberg")).plan()


@pytest.mark.parametrize("selected", ["id AS `unit price`", "count(*)", "*, id + 1"])
@pytest.mark.parametrize("between", ["", "- {stage: limit, args: [5]}\n"])
def test_check_refuses_names_that_a_query_gives(selected: str, between: str) -> None:
    query = f'- {{stage: sql_query, args: ["SELECT {selected} FROM rows"]}}\n'
    text = f"pipeline:\n- {{stage: load_csv, args: [rows.csv]}}\n{query}{between}"
    with pytest.raises(PipelineError) as error:
        Pipeline.from_yaml(f"{text}output: {{format: delta}}").plan()
    assert [(each.code, each.path) for each in error.value.problems] == [("invalid-column-name", "output")]
    Pipeline.from_yaml(
        text + '- {stage: sql_query, args: ["SELECT 1 AS one FROM rows"]}\noutput: {format: delta}'
    ).plan()


@pytest.mark.parametrize("format_", ["delta"])
def test_names_that_only_the_rows_have_are_refused_before_the_write(job: Job) -> None:
    job.run("id:bigint 1")
    pq.write_table(pa.table({"id": [2], "a b": [1]}), job.folder / "named.parquet")
    text = (
        f"pipeline: [{{stage: load_parquet, args: ['{job.folder}/named.parquet']}}]\n"
        "output: {format: delta, mode: append}"
    )
    plan, context = Pipeline.from_yaml(text).plan(), RunContext(targets={OUTPUT: job.target})
    with Run(plan, context) as run, pytest.raises(RunError, match="cannot have the column 'a b'"):
        job.write(run)
    assert job.read() == [{"id": 1}]
