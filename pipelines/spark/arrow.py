"""Rows through a function in Python workers, as Arrow record batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

Batches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_in_arrow(rows: DataFrame, function: Batches, schema: StructType) -> DataFrame:
    """DataFrame.mapInArrow for columns of any name: its own takes `unit.price` for a field of a struct."""
    numbered = rows.toDF(*(f"c{number}" for number in range(len(rows.columns))))
    return numbered.mapInArrow(partial(_named, function, rows.columns), schema)


def _named(function: Batches, names: list[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return function(batch.rename_columns(names) for batch in batches)
