"""The rows that an incremental run writes with Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StructType

from pipelines.engine.run import Run
from pipelines.incremental.selection import DIGESTS, HIGH, LOW, PAGE_COLUMN, SUMS, digest_rows, filter_pages
from pipelines.spark.engine import SparkEngine
from pipelines.spark.tasks import map_in_arrow


def choose_rows(run: Run, engine: SparkEngine, rows: DataFrame) -> DataFrame:
    """Return the rows that an incremental run writes, computed and cached; those of another run as they are."""
    if run.plan.options.incremental is None:
        return rows
    known = run.context.known
    digest = partial(_add_digests, columns=tuple(engine.columns), job=known.job if known else "")
    schema = StructType([*rows.schema]).add(PAGE_COLUMN, BinaryType()).add(LOW, LongType()).add(HIGH, LongType())
    # rows with an error are left out: the next execution requests their pages again
    digested = map_in_arrow(rows.where(F.col("_error").isNull()), digest, schema).persist()
    found = _sum_digests(digested)
    run.check_failures()
    selection = run.choose_pages(found)
    chosen = digested
    if len(selection.dropped):
        dropped = pa.table({PAGE_COLUMN: selection.dropped.cast(pa.binary())})
        chosen = digested.join(rows.sparkSession.createDataFrame(dropped), PAGE_COLUMN, "left_anti")
    chosen = engine.limit_rows(chosen)
    if run.context.limit is not None:
        chosen = chosen.persist()
        kept = {bytes(row[0]) for row in chosen.select(PAGE_COLUMN).distinct().collect()}
        selection = run.choose_pages(filter_pages(found, {*kept, *selection.dropped.to_pylist()}))
    run.keep_pages(selection)
    return chosen.drop(*DIGESTS.names)


def _sum_digests(rows: DataFrame) -> pa.Table:
    sums = rows.groupBy(PAGE_COLUMN).agg(F.sum(LOW), F.sum(HIGH), F.count(F.lit(1)))
    return sums.toDF(*SUMS).toArrow()


def _add_digests(batches: Iterable[pa.RecordBatch], columns: tuple[str, ...], job: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        digests = digest_rows(batch, columns, job)
        schema = pa.schema([*batch.schema, *digests.schema])
        yield pa.RecordBatch.from_arrays([*batch.columns, *digests.columns], schema=schema)
