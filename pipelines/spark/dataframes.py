"""Operations on DataFrames that several stages, outputs and the callers of a run share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipelines.language.columns import quote_column
from pipelines.language.json_values import list_records
from pipelines.spark.cluster import count_cores

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

_NESTED = ("array<", "map<", "struct<")
_CSV = {
    "header": True,
    "escape": '"',  # RFC 4180: pandas and DuckDB read no backslash before a quote
    "ignoreLeadingWhiteSpace": False,
    "ignoreTrailingWhiteSpace": False,
}
_OPTIONS = {"csv": _CSV, "json": {"ignoreNullFields": False}}


def create_rows(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return rows of Arrow in their order, in a partition for each core: Spark makes one of each 1,000 rows."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
    rows = rows if rows.num_rows else rows.schema.empty_table()  # a filter leaves no chunk, of which Spark makes none
    return spark.createDataFrame(rows, schema).coalesce(count_cores(spark.sparkContext))


def materialize(rows: DataFrame) -> DataFrame:
    """Compute and persist the rows.

    Parts of one Spark job run at the same time: without this, a table used twice would fetch its pages twice.
    """
    rows = rows if rows.is_cached else rows.persist()
    rows.count()
    return rows


def hide_bounds(rows: DataFrame) -> DataFrame:
    """Return the rows of files with all numbers that have a fraction computed, so that no filter reaches the readers.

    Readers skip files, groups and dictionaries by their bounds, in which NaN is missing and -0.0 is not 0.0, and which
    deltalake 1.6 rounds to 17 digits for decimals.
    """
    from pyspark.sql import functions as F

    names = [field.name for field in rows.schema.fields if _has_fractions(field.dataType)]
    return rows.withColumns({name: _compute(F.col(quote_column(name)), rows.schema[name].dataType) for name in names})


def _has_fractions(type_: DataType) -> bool:
    from pyspark.sql.types import FractionalType, StructType

    if isinstance(type_, StructType):
        return any(_has_fractions(field.dataType) for field in type_.fields)
    return isinstance(type_, FractionalType)


def _compute(value: Column, type_: DataType) -> Column:
    """Return a value in an expression that keeps it: -0.0 is added to floats, a decimal is chosen unless it is null."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import DecimalType, StructType

    if isinstance(type_, DecimalType):
        return F.nvl2(value, value, F.lit(None).cast(type_))
    if not isinstance(type_, StructType):
        return value + F.lit(-0.0).cast(type_)
    for field in type_.fields:
        if _has_fractions(field.dataType):
            value = value.withField(quote_column(field.name), _compute(value[field.name], field.dataType))
    return value


def number_rows(rows: DataFrame) -> DataFrame:
    """Make the order of the rows their document order."""
    from pyspark.sql import functions as F

    return rows.withColumn("_ordinal", F.array(F.monotonically_increasing_id()))


def first_rows(rows: DataFrame, count: int) -> DataFrame:
    """Return the first rows in document order."""
    return rows.orderBy("_ordinal").limit(count)


def to_records(rows: DataFrame, cut: int | None = None) -> list[dict[str, Any]]:
    """Collect the rows as JSON values, in their order; texts longer than `cut` characters and long lists are cut."""
    return list_records(rows.toArrow(), cut)


def write_files(rows: DataFrame, folder: str, format_: str, partition_by: Sequence[str] = ()) -> None:
    """Write rows to a new folder, divided into folders by the values of the columns to partition by.

    CSV has a header and nested values as JSON; JSON has one object per line, nulls included.
    """
    written = _flatten(rows) if format_ == "csv" else rows
    writer = written.write.mode("errorifexists").format(format_).options(**_OPTIONS.get(format_, {}))
    (writer.partitionBy(*partition_by) if partition_by else writer).save(folder)


def _flatten(rows: DataFrame) -> DataFrame:
    """Return the rows with nested values as JSON."""
    from pyspark.sql import functions as F

    cells = (
        F.to_json(F.col(quote_column(name))).alias(name) if type_.startswith(_NESTED) else F.col(quote_column(name))
        for name, type_ in rows.dtypes
    )
    return rows.select(*cells)
