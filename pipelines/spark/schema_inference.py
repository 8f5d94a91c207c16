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
from pipelines.errors import RunError, StageFailed
from pipelines.language.columns import Columns
from pipelines.passes.progress import ProgressReporter
from pipelines.passes.schema import LINK, OPEN, build_links_schema, build_rows_schema
from pipelines.planning.planner import check_inferred_names
from pipelines.spark.tasks import get_partition, map_in_arrow
from pipelines.transforms.schema import TypeMismatch, Types, convert_row, infer_schema, keep_matching_values
from pipelines.transforms.values import loads

_SAMPLE_ROWS = 100


@dataclass(frozen=True, slots=True)
class TypedRows:
    """Rows with known columns."""

    rows: DataFrame
    columns: Columns


@dataclass(frozen=True, slots=True)
class _Conversion:
    """The conversion of one step's rows, as sent to the workers."""

    step: str
    transform: str
    fails: bool
    types: Types
    schema: pa.Schema
    endpoint: Endpoint | None


def infer_columns(
    rows: DataFrame, columns: Columns, step: str, title: str, fails: bool, endpoint: Endpoint | None
) -> TypedRows:
    """Infer columns from the first 100 rows and convert all rows; a row of other types becomes an error row.

    Raise RunError when the first rows have no columns or invalid column names.
    """
    cached = rows.persist()  # read twice
    sample = cached.where(F.col("_error").isNull()).orderBy("_ordinal").select(OPEN).limit(_SAMPLE_ROWS).collect()
    try:
        types = infer_schema(loads(row[OPEN]) for row in sample)
    except TypeMismatch as error:
        raise RunError(f"{error}; declare the columns as its return type") from None
    inferred = Columns((*types, *((each, type_) for each, type_ in columns.types if each not in dict(types))))
    if not inferred.types:
        raise RunError(_describe_lack(cached))
    check_inferred_names(dict(types), inferred)
    schema = build_links_schema(inferred) if LINK in rows.columns else build_rows_schema(inferred)
    conversion = _Conversion(step, title.rpartition(":")[2], fails, types, schema, endpoint)
    return TypedRows(map_in_arrow(cached, partial(_convert, conversion), from_arrow_schema(schema)), inferred)


def _describe_lack(rows: DataFrame) -> str:
    """Return why the rows show no columns: all have failed, or there are none."""
    failed = rows.where(F.col("_error").isNotNull()).orderBy("_ordinal").select("_error").first()
    if failed is not None:
        return f"every row failed, the first one so: {failed[0]}"
    return "it gave no row that tells its columns; declare them as its return type"


def _convert(conversion: _Conversion, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Convert the batches of one partition, in a Python worker."""
    reporter = ProgressReporter(connect(conversion.endpoint, f"{conversion.step}/open/{get_partition()}"))
    for batch in batches:
        yield _convert_batch(conversion, batch, reporter)
    reporter.close()


def _convert_batch(conversion: _Conversion, batch: pa.RecordBatch, reporter: ProgressReporter) -> pa.RecordBatch:
    cells = {name: batch.column(name) for name in batch.schema.names}
    errors, types = cells["_error"].to_pylist(), conversion.types
    rows: list[dict[str, object]] = []
    for position, text in enumerate(cells[OPEN].to_pylist()):
        values = loads(text)
        try:
            rows.append(keep_matching_values(values, types) if errors[position] else convert_row(values, types))
        except TypeMismatch as error:
            errors[position] = f"{conversion.transform}: {error}, as the first {_SAMPLE_ROWS} rows have them"
            if conversion.fails:
                raise StageFailed(conversion.step, RunError(errors[position])) from None
            reporter.get_counts(conversion.step).errors += 1
            rows.append(keep_matching_values(values, types))
    cells["_error"] = pa.array(errors, pa.string())
    for name, _ in types:
        cells[name] = pa.array([row.get(name) for row in rows], conversion.schema.field(name).type)
    return pa.RecordBatch.from_arrays([cells[field.name] for field in conversion.schema], schema=conversion.schema)
