"""Columns whose types the rows show: those of row transforms without a declared type, and values of JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.coordination.client import connect
from pipelines.coordination.messages import Endpoint
from pipelines.engine.json_columns import (
    build_typed_schema,
    convert_json_batch,
    infer_json_types,
    merge_json_types,
    set_json_types,
)
from pipelines.engine.open_columns import (
    SAMPLE_ROWS,
    Conversion,
    convert_batch,
    describe_lack,
    infer_open_columns,
    mixes_types,
)
from pipelines.engine.progress import ProgressReporter
from pipelines.engine.record_batches import LINK, OPEN
from pipelines.errors import RunError
from pipelines.language.columns import Columns
from pipelines.planning.plan import Step
from pipelines.spark.tasks import get_partition, map_in_arrow
from pipelines.transforms.schema import find_telling
from pipelines.transforms.values import dumps, loads


@dataclass(frozen=True, slots=True)
class TypedRows:
    """Rows with known columns."""

    rows: DataFrame
    columns: Columns


def infer_columns(rows: DataFrame, columns: Columns, step: Step, fails: bool, endpoint: Endpoint | None) -> TypedRows:
    """Infer columns from the rows and convert all; a row of other types becomes an error row.

    The rows of a step that mixes types are all read, otherwise the first 100. Raise RunError when they have no columns
    or invalid column names.
    """
    cached = rows.persist()  # read twice
    shown = cached.where(F.col("_error").isNull()).select("_ordinal", OPEN)
    if mixes_types(step):
        shown = map_in_arrow(shown.sortWithinPartitions("_ordinal"), _find_telling_rows, shown.schema)
        sample = shown.orderBy("_ordinal").collect()
    else:
        sample = shown.orderBy("_ordinal").limit(SAMPLE_ROWS).collect()
    inferred = infer_open_columns((row[OPEN] for row in sample), columns, step)
    if inferred is None:
        failed = cached.where(F.col("_error").isNotNull()).orderBy("_ordinal").select("_error").first()
        raise RunError(describe_lack(failed[0] if failed else None))
    conversion = Conversion.build(inferred, LINK in rows.columns, step, fails)
    converted = map_in_arrow(cached, partial(_convert, conversion, endpoint), from_arrow_schema(conversion.schema))
    return TypedRows(converted, inferred.columns)


def _find_telling_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    types: dict[str, str | None] = {}
    for batch in batches:
        yield batch.filter(pa.array(find_telling(map(loads, batch.column(OPEN).to_pylist()), types), pa.bool_()))


def infer_types_of_json(rows: DataFrame, columns: Columns) -> TypedRows:
    """Give the columns of values of JSON the types that all rows show."""
    cached = rows.persist()  # read twice
    shown_schema = from_arrow_schema(pa.schema([pa.field("shown", pa.string())]))
    parts = map_in_arrow(cached.select(OPEN), partial(_show_types, columns), shown_schema).collect()
    shown = reduce(merge_json_types, (loads(row["shown"]) for row in parts), infer_json_types((), columns))
    typed = set_json_types(columns, shown)
    schema = build_typed_schema(typed, rows.columns)
    converted = map_in_arrow(cached, partial(_convert_json, shown, schema), from_arrow_schema(schema))
    return TypedRows(converted, typed)


def _show_types(columns: Columns, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the types that the rows of one partition show, in a Python worker."""
    texts = (text for batch in batches for text in batch.column(OPEN).to_pylist())
    yield pa.RecordBatch.from_pydict({"shown": [dumps(infer_json_types(texts, columns))]})


def _convert_json(
    shown: Mapping[str, str | None], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    return (convert_json_batch(batch, shown, schema) for batch in batches)


def _convert(
    conversion: Conversion, endpoint: Endpoint | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Convert the batches of one partition, in a Python worker."""
    reporter = ProgressReporter(connect(endpoint, f"{conversion.step}/open/{get_partition()}"))
    for batch in batches:
        yield convert_batch(conversion, batch, reporter)
    reporter.close()
