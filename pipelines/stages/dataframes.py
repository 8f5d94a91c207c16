"""Operations on DataFrames that several stages, and the callers of a run, share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipelines.language.json_values import to_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def materialize(rows: DataFrame) -> DataFrame:
    """Compute and persist the rows.

    Parts of one Spark job run at the same time: without this, a table used twice would fetch its pages twice.
    """
    rows = rows if rows.is_cached else rows.persist()
    rows.count()
    return rows


def first_rows(rows: DataFrame, count: int) -> DataFrame:
    """Return the first rows in document order."""
    return rows.orderBy("_ordinal").limit(count)


def to_records(rows: DataFrame, cut: int | None = None) -> list[dict[str, Any]]:
    """Collect the rows as JSON values, in their order; texts longer than `cut` characters and long lists are cut."""
    return [{name: to_json(value, cut) for name, value in row.items()} for row in rows.toArrow().to_pylist()]
