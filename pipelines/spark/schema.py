"""Spark and Arrow schemas of planned columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from pipelines.language.columns import ENGINE_COLUMNS, Columns, quote_column

LINK = "__link"
LEVEL = "__level"
OPEN = "__open"  # JSON of the values without a column, while columns are not inferred yet
ROW = "__row"

ArrowFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def get_columns(schema: StructType, named: Iterable[str] = ()) -> Columns:
    """Return the columns that pipelines see: all but the engine's own, unless a stage `named` one."""
    own = {*ENGINE_COLUMNS, LINK} - {*named}
    return Columns(tuple((each.name, each.dataType.simpleString()) for each in schema if each.name not in own))


def build_rows_schema(columns: Columns) -> pa.Schema:
    """Return the schema of rows: columns, then the engine's columns of other names."""
    engine = tuple((name, type_) for name, type_ in ENGINE_COLUMNS.items() if name not in tuple(columns))
    types = [f"{quote_column(name)} {type_}" for name, type_ in (*columns.types, *engine)]
    schema = to_arrow_schema(cast(StructType, StructType.fromDDL(", ".join(types))))
    return schema.append(pa.field(OPEN, pa.string())) if columns.open else schema


def build_links_schema(columns: Columns) -> pa.Schema:
    """Return the schema of rows that will be fetched: with the URL in LINK, null for a row without a link."""
    return build_rows_schema(columns).append(pa.field(LINK, pa.string()))


def build_explore_schema(columns: Columns) -> pa.Schema:
    """Return the schema of an explore's links, with the depth of each."""
    return build_links_schema(columns).append(pa.field(LEVEL, pa.int32()))


def build_pass_schema(finished: pa.Schema, explores: Mapping[str, pa.Schema]) -> StructType:
    """Return the schema of a pass: of rows, or with explores one struct column for each kind of record."""
    if not explores:
        return from_arrow_schema(finished)
    kinds = {**explores, ROW: finished}
    return from_arrow_schema(pa.schema([(name, pa.struct(list(kind))) for name, kind in kinds.items()]))


def map_in_arrow(rows: DataFrame, function: ArrowFunction, schema: StructType) -> DataFrame:
    """Apply DataFrame.mapInArrow to columns of any name: Spark's own takes `unit.price` for a field of a struct."""
    numbered = rows.toDF(*(f"c{number}" for number in range(len(rows.columns))))
    return numbered.mapInArrow(partial(_apply_with_names, function, rows.columns), schema)


def _apply_with_names(
    function: ArrowFunction, names: list[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    return function(batch.rename_columns(names) for batch in batches)
