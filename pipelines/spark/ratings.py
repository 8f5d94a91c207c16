"""Sentiment on Spark, a batch of texts at a time."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.stages.sentiment import score

_arrow_udf: Any = F.arrow_udf  # its stubs know only the decorator without a type


def rate(texts: Column) -> Column:
    """The score of each text, null where there is none."""
    return _arrow_udf(_scores, "double")(texts)


def _scores(texts: pa.Array) -> pa.Array:
    found = (text.strip() if text else "" for text in texts.to_pylist())
    return pa.array([score(text) if text else None for text in found], pa.float64())
