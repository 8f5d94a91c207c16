"""load_*: rows from files."""

from __future__ import annotations

import re
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

    example = """
pipeline:
  - {stage: load_csv, args: [{path: "${FOLDER}/products.csv", header: true, inferSchema: true}]}
"""

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


@stage("load_json")
class LoadJson(Source):
    """Replaces the rows by those of JSON files: an object a line, or with multiLine an array or object a file."""

    example = """
pipeline:
  - {stage: load_json, args: ["${FOLDER}/products.json"]}
"""

    positional = ("path",)
    path: str = Field(min_length=1)
    multi_line: bool = Field(False, alias="multiLine")
    encoding: str = "UTF-8"

    def title(self) -> str:
        return self.path

    def columns(self, before: Columns) -> Columns:
        return Columns(open=True)

    def load(self, spark: SparkSession, context: RunContext) -> DataFrame:
        rows = read_files(spark, context, self.path, "json", self.model_dump(by_alias=True, exclude={"path"}))
        if not rows.columns:
            raise RunError(f"the file '{self.path}' holds no JSON objects")
        return rows


@stage("load_parquet")
class LoadParquet(Source):
    """Replaces the rows by those of Parquet files; with mergeSchema, files with different columns."""

    example = """
pipeline:
  - {stage: load_parquet, args: ["${FOLDER}/products.parquet"]}
"""

    positional = ("path",)
    path: str = Field(min_length=1)
    merge_schema: bool = Field(False, alias="mergeSchema")

    def title(self) -> str:
        return self.path

    def columns(self, before: Columns) -> Columns:
        return Columns(open=True)

    def load(self, spark: SparkSession, context: RunContext) -> DataFrame:
        return read_files(spark, context, self.path, "parquet", {"mergeSchema": self.merge_schema})


def read_files(
    spark: SparkSession, context: RunContext, path: str, format_: str, options: dict[str, str | bool]
) -> DataFrame:
    """Rows of the files behind `path`, in order of file name and place in the file; raises RunError."""
    from pyspark.sql import functions as F

    files = context.files(path)
    rows = spark.read.options(**options).format(files.format or format_).load(list(files.paths))
    if not rows.columns:
        return rows
    # Spark reads large files first; both sides spell a path as URL, with one slash or three
    paths = sorted(re.sub("^file:/+", "/", each) for each in rows.inputFiles())
    own_path = F.regexp_replace(F.col("_metadata.file_path"), "^file:/+", "/")
    place = (
        F.array_position(F.array(*map(F.lit, paths)), own_path),
        F.col("_metadata.file_block_start"),
        F.monotonically_increasing_id(),
    )
    return rows.withColumn("_ordinal", F.array(*place))
