"""Rows of transforms that declare no columns: their columns are inferred from the first rows, and held to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.coordination.client import connect
from pipelines.coordination.messages import Endpoint
from pipelines.errors import RunError
from pipelines.language.columns import Columns
from pipelines.planning.planner import check_inferred_names
from pipelines.spark.arrow import map_in_arrow
from pipelines.spark.progress import Reporter
from pipelines.spark.schema import LINK, OPEN, links_schema, rows_schema
from pipelines.transforms.schema import TypeMismatch, Types, convert_row, infer_schema, keep_matching_values
from pipelines.transforms.values import loads

_FIRST_ROWS = 100


@dataclass(frozen=True, slots=True)
class Closing:
    """What the workers are sent: the step whose rows they are, the types of its open columns, and what is made."""

    key: str
    name: str
    fails: bool
    types: Types
    schema: pa.Schema
    endpoint: Endpoint | None


def close(rows: DataFrame, columns: Columns, key: str, title: str, fails: bool, endpoint: Endpoint | None) -> Closed:
    """Rows with open columns → rows with columns; a row that does not fit those of the first 100 is an error row.

    Raises RunError where no row tells what the columns are, or what they are called is no name.
    """
    name = title.rpartition(":")[2]
    made = rows.persist()  # asked twice, made once
    first = made.where(F.col("_error").isNull()).orderBy("_ordinal").select(OPEN).limit(_FIRST_ROWS).collect()
    try:
        types = infer_schema(loads(row[OPEN]) for row in first)
    except TypeMismatch as error:
        raise RunError(f"{error}; declare the columns as its return type") from None
    closed = Columns((*types, *((each, type_) for each, type_ in columns.types if each not in dict(types))))
    if not closed.types:
        raise RunError("it gave no row that tells its columns; declare them as its return type")
    check_inferred_names(dict(types), closed)
    schema = links_schema(closed) if LINK in rows.columns else rows_schema(closed)
    task = Closing(key, name, fails, types, schema, endpoint)
    return Closed(map_in_arrow(made, partial(run, task), from_arrow_schema(schema)), closed)


@dataclass(frozen=True, slots=True)
class Closed:
    rows: DataFrame
    columns: Columns


def run(task: Closing, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a Python worker: the open values of each batch as columns."""
    context = TaskContext.get()
    name = f"{task.key}/open/{context.partitionId() if context else 0}"
    reporter = Reporter(connect(task.endpoint, name))
    for batch in batches:
        yield _closed(task, batch, reporter)
    reporter.close()


def _closed(task: Closing, batch: pa.RecordBatch, reporter: Reporter) -> pa.RecordBatch:
    cells = {name: batch.column(name) for name in batch.schema.names}
    errors = cells["_error"].to_pylist()
    found: list[dict[str, object]] = []
    for position, text in enumerate(cells[OPEN].to_pylist()):
        values = loads(text)
        try:
            found.append(
                keep_matching_values(values, task.types) if errors[position] else convert_row(values, task.types)
            )
        except TypeMismatch as error:
            errors[position] = f"{task.name}: {error}, as the first {_FIRST_ROWS} rows have them"
            if task.fails:
                raise RunError(f"python_row_transform:{errors[position]}") from None
            reporter.step(task.key).errors += 1
            found.append(keep_matching_values(values, task.types))
    cells["_error"] = pa.array(errors, pa.string())
    for name, _ in task.types:
        cells[name] = pa.array([values.get(name) for values in found], task.schema.field(name).type)
    return pa.RecordBatch.from_arrays([cells[field.name] for field in task.schema], schema=task.schema)
