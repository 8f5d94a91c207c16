"""Columns of values of JSON pages: their types are those that all rows of a pass have shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, cast

import pyarrow as pa

from pipelines.engine.record_batches import LINK, OPEN, build_links_schema, build_rows_schema
from pipelines.extract.jsonpath import format_json
from pipelines.language.columns import Columns
from pipelines.transforms.values import loads

_LARGEST = 2**63 - 1
Shown = Mapping[str, str | None]


def infer_json_types(texts: Iterable[str | None], columns: Columns) -> dict[str, str | None]:
    """Return the types that rows show for the columns of JSON values, None for columns of nulls."""
    shown: dict[str, str | None] = dict.fromkeys(columns.json_names)
    for text in texts:
        for name, value in _read_values(text).items():
            if name in shown:
                shown[name] = _merge_types(shown[name], _infer_type(value))
    return shown


def merge_json_types(one: Shown, other: Shown) -> dict[str, str | None]:
    """Return the types that hold the values of two parts of the rows."""
    return {name: _merge_types(type_, other[name]) for name, type_ in one.items()}


def set_json_types(columns: Columns, shown: Shown) -> Columns:
    """Return the columns with the types that rows have shown, text for columns of nulls."""
    given = dict(columns.types)
    nothing = {name: "array<string>" if given[name].startswith("array<") else "string" for name in shown}
    return columns.with_columns(tuple((name, type_ or nothing[name]) for name, type_ in shown.items()))


def build_typed_schema(columns: Columns, names: Iterable[str]) -> pa.Schema:
    """Return the schema of rows with these column names after the types of their JSON values are set."""
    return build_links_schema(columns) if LINK in names else build_rows_schema(columns)


def convert_json_batch(batch: pa.RecordBatch, shown: Shown, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows with the values of JSON in columns of their own."""
    rows = [*map(_read_values, batch.column(OPEN).to_pylist())]
    cells = {name: batch.column(name) for name in batch.schema.names}
    for name in shown:
        type_ = schema.field(name).type
        cells[name] = pa.array([_convert_value(row.get(name), type_) for row in rows], type_)
    return pa.RecordBatch.from_arrays([cells[field.name] for field in schema], schema=schema)


def _read_values(text: str | None) -> dict[str, Any]:
    return loads(text) if text else {}


def _infer_type(value: object) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "boolean"
        case int():
            return "bigint" if abs(value) <= _LARGEST else "string"
        case float():
            return "double"
        case list():
            element = reduce(_merge_types, map(_infer_type, cast("list[object]", value)), None)
            return f"array<{element}>" if element else None
        case _:
            return "string"


def _merge_types(one: str | None, other: str | None) -> str | None:
    """Return the type that holds values of both: a double for all numbers, a text for all values."""
    if one is None or other is None or one == other:
        return one or other
    if one.startswith("array<") and other.startswith("array<"):
        return f"array<{_merge_types(one[6:-1], other[6:-1])}>"
    return "double" if {one, other} == {"bigint", "double"} else "string"


def _convert_value(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_list(type_):
        return [_convert_value(each, type_.value_type) for each in value]
    if pa.types.is_string(type_):
        return format_json(value)
    return float(value) if pa.types.is_floating(type_) else value
