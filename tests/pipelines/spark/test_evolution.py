"""Rows with wider types than those of a dataset: every format, appended and merged, on both runners for Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.table import StaticTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.columns.types import format_type, parse_type
from pipelines.contract.context import RunContext
from pipelines.contract.report import MergedVersion, WrittenFiles
from pipelines.contract.request import OUTPUT, Files, Target
from pipelines.duckdb.file_types import FileTypes
from pipelines.duckdb.views import View
from pipelines.engine.run import Run
from pipelines.errors import RunError
from pipelines.language.formats import TABLE_FORMATS
from pipelines.local.output import write_output
from pipelines.pipeline import Pipeline
from pipelines.spark.output import Saves
from pipelines.spark.runner import SparkRunner
from pipelines.sql.type_names import convert_type
from pipelines.stages.save import SaveParquet
from pipelines.tables import spark_tables
from pipelines.tables.snapshots import parse_iceberg_snapshot
from tests.support.libraries import needs_libraries

Columns = dict[str, str]
TABLES = [pytest.param(name, marks=[pytest.mark.long, needs_libraries]) for name in ("delta", "iceberg")]
SPARK = pytest.param("parquet", marks=pytest.mark.long)
FORMATS = pytest.mark.parametrize("format_", ["local", SPARK, *TABLES])
MODES = pytest.mark.parametrize("mode", ["append", "merge"])

NARROW = {
    "id": "int",
    "score": "float",
    "price": "decimal(10,2)",
    "shop": "struct<id:int>",
    "offers": "array<struct<id:int>>",
    "stock": "map<string,struct<count:int>>",
}
WIDE = {
    "id": "bigint",
    "score": "double",
    "price": "decimal(20,2)",
    "shop": "struct<id:bigint,name:string>",
    "offers": "array<struct<id:bigint,day:date>>",
    "stock": "map<string,struct<count:bigint,unit:string>>",
}
FIRST = {
    **{"id": 1, "score": 0.5, "price": Decimal("1.25"), "shop": {"id": 1}},
    **{"offers": [{"id": 1}, None], "stock": {"a": {"count": 1}}},
}
EMPTY = {"id": 2, "score": None, "price": None, "shop": None, "offers": None, "stock": None}
LATER = {
    **{"id": 2**40, "score": 0.1, "price": Decimal("123456789012345678.25"), "shop": {"id": 2**40, "name": "b"}},
    **{"offers": [{"id": 2**40, "day": None}], "stock": {"a": {"count": 2**40, "unit": "kg"}}},
}
WIDENED = {
    **{"id": 1, "score": 0.5, "price": Decimal("1.25"), "shop": {"id": 1, "name": None}},
    **{"offers": [{"id": 1, "day": None}, None], "stock": {"a": {"count": 1, "unit": None}}},
}


class Dataset:
    """One dataset, to which each write adds a version as a job's executions do."""

    def __init__(self, spark: SparkSession, folder: Path, format_: str) -> None:
        self.spark = spark
        self.folder = folder
        self.runner, self.format = ("local", "parquet") if format_ == "local" else ("spark", format_)
        location = str(folder / "table") if format_ in TABLE_FORMATS else None
        self.target = Target(location=location)
        self.writes = 0

    def write(self, columns: Columns, *rows: dict[str, Any], mode: str = "append", partition: str = "") -> WrittenFiles:
        table = make_table(columns, rows)
        self.writes += 1
        keys = ", keys: [id]" if mode == "merge" else ""
        partitions = f", partitionBy: [{partition}]" if partition else ""
        folder = str(self.folder / f"output-{self.writes}")
        if self.runner == "local":
            plan = Pipeline.from_yaml(
                f"pipeline: [{{stage: load_parquet, args: [a]}}]\noutput: {{mode: {mode}{keys}}}"
            ).plan()
            written = write_output(table, plan, folder, RunContext(targets={OUTPUT: self.target}), 0)
        else:
            pq.write_table(table, self.folder / f"in-{self.writes}.parquet")
            text = (
                f"pipeline: [{{stage: load_parquet, args: ['{self.folder}/in-{self.writes}.parquet']}}]\n"
                f"output: {{format: {self.format}, mode: {mode}{keys}{partitions}}}"
            )
            context = RunContext(targets={OUTPUT: self.target}, author=f"execution-{self.writes}")
            with Run(Pipeline.from_yaml(text).plan(), context) as run:
                result = SparkRunner(run, self.spark).write(folder).output
            self.spark.catalog.clearCache()
            assert result is not None
            written = result
        replaces = written.total_rows is not None or not self.target.exists
        appended = (
            written.columns if replaces else tuple({**dict(self.target.columns), **dict(written.columns)}.items())
        )
        self.target = replace(
            self.target,
            exists=True,
            format=self.format,
            columns=appended if written.table is None else written.columns,
            snapshot=written.table.snapshot if written.table else None,
            paths=(folder,) if replaces else (*self.target.paths, folder),
            partition_by=(partition,) if partition else (),
            version=f"version-{self.writes}",
        )
        return written

    def read(self, target: Target | None = None) -> list[dict[str, Any]]:
        """Read a version as the service's own engine does, by default the last one."""
        target = target or self.target
        if target.format == "delta":
            files = DeltaTable(target.location or "", version=int(target.snapshot or "")).file_uris()
        elif target.format == "iceberg":
            file = f"{target.location}/metadata/{parse_iceberg_snapshot(target.snapshot or '').file}"
            files = [task.file.file_path for task in StaticTable.from_metadata(file).scan().plan_files()]
        else:
            files = [str(file) for path in target.paths for file in Path(path).rglob("*.parquet")]
        columns = [(name, convert_type(type_, "spark", "duckdb")) for name, type_ in target.columns]
        folders = () if target.format == "iceberg" else target.partition_by
        view = View("rows", files, columns, folders, target.format in TABLE_FORMATS)
        with duckdb.connect() as connection:
            query = FileTypes().define(connection, view)
            found = connection.sql(f"SELECT * FROM ({query}) ORDER BY id").to_arrow_table()
        assert {field.name: format_type(field.type) for field in found.schema} == dict(target.columns)
        return found.to_pylist(maps_as_pydicts="strict")


def make_table(columns: Columns, rows: tuple[dict[str, Any], ...]) -> pa.Table:
    schema = pa.schema([(name, parse_type(type_)) for name, type_ in columns.items()])
    pairs = [{name: [*each.items()] if isinstance(each, dict) and columns[name].startswith("map") else each
              for name, each in row.items()} for row in rows]  # fmt: skip
    return pa.Table.from_pylist(pairs, schema)


@pytest.fixture
def dataset(request: pytest.FixtureRequest, tmp_path: Path, format_: str) -> Dataset:
    spark = None if format_ == "local" else request.getfixturevalue("spark")
    return Dataset(spark, tmp_path, format_)


@pytest.mark.parametrize("format_", ["local", "parquet", *TABLES])
@MODES
def test_columns_become_wider(dataset: Dataset, mode: str) -> None:
    dataset.write(NARROW, FIRST, EMPTY, mode="overwrite")
    first = dataset.target
    written = dataset.write(WIDE, LATER, mode=mode)
    assert dict(dataset.target.columns) == WIDE
    assert (written.rows, dataset.read()) == (1, [WIDENED, EMPTY, LATER])
    assert dict(first.columns) == NARROW
    assert dataset.read(first) == [FIRST, EMPTY], "the earlier version has its own columns"
    dataset.write({"id": "int", "extra": "string"}, {"id": 3, "extra": "x"}, mode=mode)
    rows = dataset.read()
    assert [row["id"] for row in rows] == [1, 2, 3, 2**40]
    assert rows[2] == {**dict.fromkeys(WIDE), "id": 3, "extra": "x"}


@FORMATS
@MODES
def test_rows_of_narrower_types_fit(dataset: Dataset, mode: str) -> None:
    dataset.write(WIDE, LATER, mode="overwrite")
    dataset.write(NARROW, FIRST, EMPTY, mode=mode)
    assert dict(dataset.target.columns) == WIDE
    assert dataset.read() == [WIDENED, EMPTY, LATER]


@FORMATS
def test_a_merge_keeps_the_columns_that_its_rows_lack(dataset: Dataset) -> None:
    columns = {"id": "int", "name": "string", "price": "double"}
    earlier = ((1, "a", 1.5), (2, "b", 2.5), (None, "n", 9.5))
    dataset.write(columns, *(dict(zip(columns, row, strict=True)) for row in earlier), mode="overwrite")
    given = ((2, None, 20), (3, 3.5, 30), (None, 9.0, 90))
    names = ("id", "price", "stock")
    rows = (dict(zip(names, row, strict=True)) for row in given)
    written = dataset.write({"id": "bigint", "price": "double", "stock": "int"}, *rows, mode="merge")
    assert [tuple(row[name] for name in (*columns, "stock")) for row in dataset.read()] == [
        (1, "a", 1.5, None), (2, "b", None, 20), (3, None, 3.5, 30), (None, "n", 9.0, 90),
    ]  # fmt: skip
    assert written.rows == 3


@FORMATS
def test_a_merge_without_some_columns_updates_each_row_of_its_keys(dataset: Dataset) -> None:
    columns = {"id": "int", "size": "string", "price": "double"}
    earlier = ((1, "m", 1.5), (1, "l", 2.5))
    dataset.write(columns, *(dict(zip(columns, row, strict=True)) for row in earlier), mode="overwrite")
    dataset.write({"id": "int", "price": "double"}, {"id": 1, "price": 3.5}, mode="merge")
    assert sorted((row["size"], row["price"]) for row in dataset.read()) == [("l", 3.5), ("m", 3.5)]


@FORMATS
@pytest.mark.parametrize(
    ("existing", "given"),
    [("int", "double"), ("bigint", "string"), ("struct<a:int>", "struct<a:string>"), ("decimal(38,2)", "decimal(5,4)")],
)
def test_types_that_do_not_fit_name_the_column(dataset: Dataset, existing: str, given: str) -> None:
    dataset.write({"id": "int", "price": existing}, {"id": 1, "price": None}, mode="overwrite")
    before = dataset.target
    with pytest.raises(RunError, match=r"'price' is .* in the dataset and .* in the new rows"):
        dataset.write({"id": "int", "price": given}, {"id": 2, "price": None})
    assert dataset.read(before) == [{"id": 1, "price": None}]


@pytest.mark.parametrize("format_", ["local", SPARK, TABLES[0]])
def test_decimals_get_more_digits_after_the_point(dataset: Dataset) -> None:
    dataset.write({"id": "int", "price": "decimal(10,2)"}, {"id": 1, "price": Decimal("1.25")}, mode="overwrite")
    dataset.write({"id": "int", "price": "decimal(10,4)"}, {"id": 2, "price": Decimal("1.2555")})
    assert dict(dataset.target.columns) == {"id": "int", "price": "decimal(12,4)"}
    assert [row["price"] for row in dataset.read()] == [Decimal("1.2500"), Decimal("1.2555")]


@pytest.mark.parametrize("format_", TABLES[1:])
def test_iceberg_keeps_the_digits_after_the_point(dataset: Dataset) -> None:
    dataset.write({"id": "int", "price": "decimal(10,2)"}, {"id": 1, "price": Decimal("1.25")}, mode="overwrite")
    with pytest.raises(RunError, match=r"'price' is decimal\(10,2\) in the dataset and decimal\(10,4\) in the new"):
        dataset.write({"id": "int", "price": "decimal(10,4)"}, {"id": 2, "price": Decimal("1.2555")})


@pytest.mark.long
@pytest.mark.parametrize("format_", ["parquet", *TABLES])
def test_partitions_stay_when_a_column_becomes_wider(dataset: Dataset) -> None:
    columns = {"id": "int", "shop": "string"}
    dataset.write(columns, {"id": 1, "shop": "a/b"}, {"id": 2, "shop": None}, mode="overwrite", partition="shop")
    dataset.write(columns, {"id": 3, "shop": "c"}, partition="shop")
    dataset.write({**columns, "id": "bigint"}, {"id": 2**40, "shop": "a/b"}, partition="shop")
    assert dict(dataset.target.columns) == {"id": "bigint", "shop": "string"}
    shops = [(row["id"], row["shop"]) for row in dataset.read()]
    assert shops == [(1, "a/b"), (2, None), (3, "c"), (2**40, "a/b")]


@pytest.mark.parametrize("format_", ["parquet", *TABLES])
def test_the_text_null_is_no_null_in_the_name_of_a_folder(dataset: Dataset) -> None:
    texts = ["null", "NULL", "Null", "nullable", None]
    rows = [{"id": at, "shop": text} for at, text in enumerate(texts)]
    dataset.write({"id": "int", "shop": "string"}, *rows, mode="overwrite", partition="shop")
    assert dataset.read() == rows
    wider = {"id": 2**40, "shop": "null"}
    dataset.write({"id": "bigint", "shop": "string"}, wider, partition="shop")  # Spark reads the earlier rows
    assert dataset.read() == [*rows, wider]


@pytest.mark.parametrize("format_", [TABLES[0]])
def test_other_libraries_read_a_widened_delta_table(dataset: Dataset) -> None:
    dataset.write({"id": "int"}, {"id": 1}, mode="overwrite")
    dataset.write({"id": "bigint"}, {"id": 2**40})
    rows = DeltaTable(dataset.target.location or "").to_pyarrow_table().to_pylist()
    assert sorted(row["id"] for row in rows) == [1, 2**40]


def test_a_save_writes_earlier_rows_with_its_own(spark: SparkSession, tmp_path: Path) -> None:
    def save(columns: Columns, row: dict[str, Any], target: Target) -> Any:
        context = RunContext(
            targets={"goods": target},
            inputs={"goods": Files(target.paths, "parquet")} if target.paths else {},
            saves_folder=f"{tmp_path}/saves-{len(target.paths)}",
        )
        saves = Saves(context)
        pq.write_table(make_table(columns, (row,)), tmp_path / "rows.parquet")
        rows = spark.read.parquet(str(tmp_path / "rows.parquet"))
        saves.write(SaveParquet.model_validate({"path": "goods", "mode": "append"}), rows)
        (saved,) = saves.commit()
        return saved, context

    first, context = save({"id": "int"}, {"id": 1}, Target())
    target = Target(
        exists=True, format="parquet", columns=(("id", "int"),), paths=(f"{context.saves_folder}/1",), version="v1"
    )
    saved, context = save({"id": "bigint"}, {"id": 2**40}, target)
    assert (first.merged, saved.merged) == (None, MergedVersion("v1"))
    assert (saved.columns, saved.rows, saved.total_rows) == ((("id", "bigint"),), 1, 2)
    assert context.saved["goods"].paths == (f"{context.saves_folder}/1",), "the run itself loads all of them"
    assert sorted(pq.read_table(f"{context.saves_folder}/1").column("id").to_pylist()) == [1, 2**40]


@needs_libraries
@pytest.mark.long
@pytest.mark.parametrize("format_", ["delta"])
def test_a_narrow_append_while_files_are_rewritten_gets_the_wider_type(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset.write({"id": "int"}, {"id": 1})
    location, marker, replace_rows = (
        dataset.target.location,
        dataset.folder / "appended",
        spark_tables.DeltaTable.replace,
    )

    def append_once(id_: int) -> int:  # in a worker, between the read of the table and the commit
        if not marker.exists():
            marker.touch()
            write_deltalake(location, pa.table({"id": pa.array([2], pa.int32())}), mode="append")
        return id_

    def replace_slowly(table: spark_tables.DeltaTable, rows: DataFrame, partition_by: Sequence[str]) -> None:
        replace_rows(table, rows.select(F.udf(append_once, "bigint", useArrow=False)("id").alias("id")), partition_by)

    monkeypatch.setattr(spark_tables.DeltaTable, "replace", replace_slowly)
    dataset.write({"id": "bigint"}, {"id": 2**40})
    assert marker.exists()
    assert dataset.read() == [{"id": 1}, {"id": 2}, {"id": 2**40}]
    files = DeltaTable(location or "").file_uris()
    assert {str(pq.read_schema(file).field("id").type) for file in files} == {"int64"}
