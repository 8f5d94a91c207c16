"""Columns of row transforms without a declared return type: inferred from the first rows, then enforced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.coordination.client import connect
from pipelines.coordination.messages import Endpoint
from pipelines.errors import RunError
from pipelines.language.columns import Columns
from pipelines.passes.open_columns import SAMPLE_ROWS, Conversion, convert_batch, describe_lack, infer_open_columns
from pipelines.passes.progress import ProgressReporter
from pipelines.passes.schema import LINK, OPEN
from pipelines.spark.tasks import get_partition, map_in_arrow


@dataclass(frozen=True, slots=True)
class TypedRows:
    """Rows with known columns."""

    rows: DataFrame
    columns: Columns


def infer_columns(
    rows: DataFrame, columns: Columns, step: str, title: str, fails: bool, endpoint: Endpoint | None
) -> TypedRows:
    """Infer columns from the first 100 rows and convert all rows; a row of other types becomes an error row.

    Raise RunError when the first rows have no columns or invalid column names.
    """
    cached = rows.persist()  # read twice
    sample = cached.where(F.col("_error").isNull()).orderBy("_ordinal").select(OPEN).limit(SAMPLE_ROWS).collect()
    inferred = infer_open_columns((row[OPEN] for row in sample), columns)
    if inferred is None:
        raise RunError(describe_lack(_get_first_error(cached)))
    conversion = Conversion.build(inferred, LINK in rows.columns, step, title, fails)
    converted = map_in_arrow(cached, partial(_convert, conversion, endpoint), from_arrow_schema(conversion.schema))
    return TypedRows(converted, inferred.columns)


def _get_first_error(rows: DataFrame) -> str | None:
    failed = rows.where(F.col("_error").isNotNull()).orderBy("_ordinal").select("_error").first()
    return failed[0] if failed else None


def _convert(
    conversion: Conversion, endpoint: Endpoint | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Convert the batches of one partition, in a Python worker."""
    reporter = ProgressReporter(connect(endpoint, f"{conversion.step}/open/{get_partition()}"))
    for batch in batches:
        yield convert_batch(conversion, batch, reporter)
    reporter.close()
