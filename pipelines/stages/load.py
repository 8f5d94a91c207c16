"""load_*: rows from files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from pipelines.columns import Columns
from pipelines.errors import RunError
from pipelines.registry import Source, stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.spark.context import RunContext


@stage("load_csv")
class LoadCsv(Source):
    """Replaces the rows by those of CSV files; without a header the columns are called _c0, _c1 and so on."""

    positional = ("path", "header")
    path: str = Field(min_length=1)
    header: bool = True
    infer_schema: bool = Field(False, alias="inferSchema")
    sep: str = Field(",", min_length=1)
    quote: str = Field('"', max_length=1)
    escape: str = Field("\\", max_length=1)
    encoding: str = "UTF-8"
    null_value: str = Field("", alias="nullValue")
    multi_line: bool = Field(False, alias="multiLine")

    def title(self) -> str:
        return self.path

    def columns(self, before: Columns) -> Columns:
        return Columns(open=True)

    def load(self, spark: SparkSession, context: RunContext) -> DataFrame:
        options = self.model_dump(by_alias=True, exclude={"path"})
        rows = read_files(spark, context, self.path, "csv", options)
        if not rows.columns:
            raise RunError(f"the file '{self.path}' is empty: it has neither a header nor rows")
        return rows


def read_files(
    spark: SparkSession, context: RunContext, path: str, format_: str, options: dict[str, str | bool]
) -> DataFrame:
    """Rows of the files behind `path`, in order of file name and place in the file; raises RunError."""
    from pyspark.sql import functions as F

    files = context.files(path)
    rows = spark.read.options(**options).format(files.format or format_).load(list(files.paths))
    if not rows.columns:
        return rows
    names = F.array(*(F.lit(name) for name in sorted(rows.inputFiles())))
    place = (
        F.array_position(names, F.col("_metadata.file_path")),
        F.col("_metadata.file_block_start"),
        F.monotonically_increasing_id(),
    )
    return rows.withColumn("_ordinal", F.array(*place))
