"""Rows that are made once and kept by Spark, whoever reads them how often."""

from __future__ import annotations

from pyspark.sql import DataFrame


def held(rows: DataFrame) -> DataFrame:
    """The rows, made now: parts of one job run side by side, and what one is just fetching another would fetch too."""
    rows = rows if rows.is_cached else rows.persist()
    rows.count()
    return rows
