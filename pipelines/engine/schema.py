"""Arrow schemas of planned columns, and of the rows and links that passes exchange; the rows of first addresses."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pipelines.columns.types import parse_type
from pipelines.extract.rows import Link
from pipelines.language.columns import ENGINE_COLUMNS, Columns

LINK = "__link"
LEVEL = "__level"
OPEN = "__open"  # JSON of the values without a column, while columns or their types are not inferred yet
ROW = "__row"
WITHOUT_VALUES = r'^\{(?:"(?:[^"\\]|\\.)*": ?null(?:, ?)?)*\}$'  # of OPEN, in rows whose page failed


def build_rows_schema(columns: Columns) -> pa.Schema:
    """Return the schema of rows: columns, then the engine's columns of other names; raise UnknownType."""
    engine = tuple((name, type_) for name, type_ in ENGINE_COLUMNS.items() if name not in tuple(columns))
    of_json = columns.json_names
    types = [(name, type_) for name, type_ in columns.types if name not in of_json]
    schema = pa.schema([pa.field(name, parse_type(type_)) for name, type_ in (*types, *engine)])
    return schema.append(pa.field(OPEN, pa.string())) if columns.open or of_json else schema


def build_links_schema(columns: Columns) -> pa.Schema:
    """Return the schema of rows that will be fetched: with the URL in LINK, null for a row without a link."""
    return build_rows_schema(columns).append(pa.field(LINK, pa.string()))


def build_seeds(links: Sequence[Link]) -> pa.Table:
    """Return a row for every first address."""
    columns = {
        LINK: pa.array([link.url for link in links], pa.string()),
        "_error": pa.array([link.error for link in links], pa.string()),
        "_ordinal": pa.array([[number] for number in range(len(links))], pa.list_(pa.int64())),
    }
    return pa.table(columns)


def build_explore_schema(columns: Columns) -> pa.Schema:
    """Return the schema of an explore's links, with the depth of each."""
    return build_links_schema(columns).append(pa.field(LEVEL, pa.int32()))
