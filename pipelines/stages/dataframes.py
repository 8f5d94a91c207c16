"""Operations on DataFrames that several stages, outputs and the callers of a run share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipelines.language.columns import quote_column
from pipelines.language.json_values import list_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NESTED = ("array<", "map<", "struct<")
_CSV = {
    "header": True,
    "escape": '"',  # RFC 4180: pandas and DuckDB read no backslash before a quote
    "ignoreLeadingWhiteSpace": False,
    "ignoreTrailingWhiteSpace": False,
}
_OPTIONS = {"csv": _CSV, "json": {"ignoreNullFields": False}}


def materialize(rows: DataFrame) -> DataFrame:
    """Compute and persist the rows.

    Parts of one Spark job run at the same time: without this, a table used twice would fetch its pages twice.
    """
    rows = rows if rows.is_cached else rows.persist()
    rows.count()
    return rows


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
