"""sql_query finds the rows of other tables that meet a condition by their values, whoever wrote the files."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from core.infra.settings import Settings
from core.infra.storage import open_storage
from pipelines.contract.context import RunContext
from pipelines.contract.request import Files, make_table_key
from pipelines.tables.snapshots import parse_iceberg_snapshot
from tests.support.filters import KINDS, SPARK_WORDS, build_query, find_wrong, list_conditions
from tests.support.libraries import needs_libraries
from tests.support.pipelines import make_runner
from tests.support.stored import store_rows
from tests.support.tables import append_rows

LONG = (needs_libraries, pytest.mark.long)
WRITERS = [
    pytest.param("spark", "parquet", marks=pytest.mark.long),
    ("libraries", "parquet"),
    pytest.param("spark", "delta", marks=LONG),
    pytest.param("libraries", "delta", marks=LONG),
    pytest.param("libraries", "iceberg", marks=LONG),
]
AMOUNT = KINDS["amount"].values[0]
COLUMNS = {
    "double": [0.5, math.nan, 0.5, 0.5],
    "real": [-0.0, -0.0, None, -0.0],
    "amount": [AMOUNT, None, AMOUNT, AMOUNT],
}
STRIDE = 4  # of the conditions, each of which is a scan


def write_by_libraries(rows: pa.Table, folder: Path, format_: str) -> Files:
    settings = Settings(data=folder)
    if format_ == "parquet":
        return Files((store_rows(settings, "rows", rows),), format_)
    snapshot = append_rows(settings, format_, "rows", rows)
    path = open_storage(settings.storage).url_for("rows", "spark")
    if format_ == "iceberg":
        path = f"{path}/metadata/{parse_iceberg_snapshot(snapshot).file}"
    return Files((path,), format_, snapshot)


def write_by_spark(spark: SparkSession, rows: pa.Table, folder: Path, format_: str) -> Files:
    path = str(folder / "written")
    schema = ", ".join(f"{name} {KINDS[name].spark}" for name in COLUMNS) + ", nested struct<x: double>"
    spark.createDataFrame(rows.to_pylist(), schema).coalesce(1).write.format(format_).save(path)
    return Files((path,), format_)


@pytest.mark.parametrize(("writer", "format_"), WRITERS)
def test_filters_find_the_rows_that_meet_them(spark: SparkSession, tmp_path: Path, writer: str, format_: str) -> None:
    rows = pa.table({name: pa.array(values, KINDS[name].arrow) for name, values in COLUMNS.items()})
    nested = pa.array([{"x": value} for value in COLUMNS["double"]], pa.struct({"x": pa.float64()}))
    rows = rows.append_column("nested", nested)
    is_spark = writer == "spark"
    files = write_by_spark(spark, rows, tmp_path, format_) if is_spark else write_by_libraries(rows, tmp_path, format_)
    context = RunContext(inputs={make_table_key("lake.t"): files}, local_folders=())
    run = make_runner(lambda: spark, tmp_path)
    wrong: dict[str, str] = {}
    for column, name in (("double", "double"), ("real", "real"), ("amount", "amount"), ("nested.x", "double")):
        some = list_conditions(KINDS[name], SPARK_WORDS, nan_is_greatest=True)[1::STRIDE]
        query = build_query(some, "t", column)
        text = f'pipeline: [{{stage: sql_query, args: ["{query}", {{tables: {{t: lake.t}}}}]}}]'
        wrong |= find_wrong(some, COLUMNS[name], {row["place"]: row["n"] for row in run(text, context)})
    assert wrong == {}
