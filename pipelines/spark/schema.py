"""Planned columns ↔ Spark and Arrow schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from pipelines.language.columns import ENGINE_COLUMNS, Columns
from pipelines.stages.dataframes import quote_column

LINK = "__link"
LEVEL = "__level"
OPEN = "__open"  # of a row whose columns are not known while it is made: all its other values
ROW = "__row"


def columns_of(schema: StructType, named: Iterable[str] = ()) -> Columns:
    """The columns of a table that pipelines see: all but the engine's own, if not `named` by a stage."""
    own = {*ENGINE_COLUMNS, LINK} - {*named}
    return Columns(tuple((each.name, each.dataType.simpleString()) for each in schema if each.name not in own))


def rows_schema(columns: Columns) -> pa.Schema:
    """Columns, then the engine's where no stage wrote one of that name."""
    engine = tuple((name, type_) for name, type_ in ENGINE_COLUMNS.items() if name not in tuple(columns))
    types = [f"{quote_column(name)} {type_}" for name, type_ in (*columns.types, *engine)]
    schema = to_arrow_schema(cast(StructType, StructType.fromDDL(", ".join(types))))
    return schema.append(pa.field(OPEN, pa.string())) if columns.open else schema


def links_schema(columns: Columns) -> pa.Schema:
    """Rows on their way to a fetch: the address in LINK, null for a row that stays without a page."""
    return rows_schema(columns).append(pa.field(LINK, pa.string()))


def explore_schema(columns: Columns) -> pa.Schema:
    """Links of an explore, and how deep each leads."""
    return links_schema(columns).append(pa.field(LEVEL, pa.int32()))


def pass_schema(finished: pa.Schema, explores: Mapping[str, pa.Schema]) -> StructType:
    """What a pass gives: finished rows, or with explores one struct for each kind of record."""
    if not explores:
        return from_arrow_schema(finished)
    kinds = {**explores, ROW: finished}
    return from_arrow_schema(pa.schema([(name, pa.struct(list(kind))) for name, kind in kinds.items()]))
