"""Passes as DataFrames: functions over Arrow batches in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext

from pipelines.engine.definition import Pass
from pipelines.engine.record_batches import LINK
from pipelines.engine.worker import run_pass
from pipelines.language.columns import ENGINE_COLUMNS, Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

ArrowFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def get_columns(schema: StructType, named: Iterable[str] = ()) -> Columns:
    """Return the columns that pipelines see: all but the engine's own, unless a stage `named` one."""
    own = {*ENGINE_COLUMNS, LINK} - {*named}
    return Columns(tuple((each.name, each.dataType.simpleString()) for each in schema if each.name not in own))


def map_in_arrow(rows: DataFrame, function: ArrowFunction, schema: StructType) -> DataFrame:
    """Apply DataFrame.mapInArrow to columns of any name: Spark's own takes `unit.price` for a field of a struct."""
    numbered = rows.toDF(*(f"c{number}" for number in range(len(rows.columns))))
    return numbered.mapInArrow(partial(_apply_with_names, function, rows.columns), schema)


def _apply_with_names(
    function: ArrowFunction, names: list[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    return function(batch.rename_columns(names) for batch in batches)


def iter_batches(rows: DataFrame) -> Iterator[pa.RecordBatch]:
    """Yield the rows partition by partition, so that the driver has few of them at a time."""
    from pyspark.sql.types import BinaryType, StructField, StructType

    encoded = map_in_arrow(rows, _encode_batches, StructType([StructField("batch", BinaryType())]))
    for (batch,) in encoded.toLocalIterator():
        yield from pa.ipc.open_stream(bytes(batch))


def _encode_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        encoded = pa.BufferOutputStream()
        with pa.ipc.new_stream(encoded, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.record_batch([[encoded.getvalue().to_pybytes()]], names=["batch"])


def get_partition() -> int:
    """Return the number of the partition that this worker processes."""
    context = TaskContext.get()
    return context.partitionId() if context else 0


def run_pass_in_task(task: Pass, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the pass over the partition of this task."""
    return run_pass(task, batches, get_partition())
