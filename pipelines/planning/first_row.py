"""The one row of a pipeline that begins with a request to a service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.language.columns import Columns
from pipelines.planning.stage import Source

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.contract.context import RunContext


class FirstRow(Source):
    """Begin with one row without columns; the planner adds this stage, which has no name."""

    def describe(self) -> str:
        return "1 row"

    def infer_columns(self, before: Columns) -> Columns:
        return Columns()

    def needs_spark(self, before: Columns) -> bool:
        return False

    def load(self, spark: SparkSession, context: RunContext) -> DataFrame:
        return spark.createDataFrame([([1],)], "_ordinal array<bigint>")

    def load_locally(self, context: RunContext) -> tuple[pa.Table, Columns]:
        import pyarrow as pa

        return pa.table({"_ordinal": pa.array([[1]], pa.list_(pa.int64()))}), Columns()
