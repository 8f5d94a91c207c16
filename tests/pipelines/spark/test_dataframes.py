"""Rows of Arrow as DataFrames."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from pipelines.spark.cluster import count_cores
from pipelines.spark.dataframes import create_rows

ROWS = 50_000  # more than Spark keeps as a local relation, in parts of 1,000


def test_rows_keep_their_order_in_as_many_partitions_as_there_are_cores(spark: SparkSession) -> None:
    rows = pa.table({"id": range(ROWS), "text": [f"{number:01000}" for number in range(ROWS)]})
    created = create_rows(spark, rows)
    assert created.rdd.getNumPartitions() == count_cores(spark.sparkContext)
    assert created.select("id").toArrow()["id"].to_pylist() == [*range(ROWS)]


def test_no_rows_keep_their_columns(spark: SparkSession) -> None:
    rows = pa.table({"id": [1], "_ordinal": pa.array([[1]], pa.list_(pa.int64()))})
    nothing = rows.filter(pc.greater(rows["id"], 1))
    assert nothing["_ordinal"].num_chunks == 0
    assert create_rows(spark, nothing).dtypes == [("id", "bigint"), ("_ordinal", "array<bigint>")]
