"""Types of Parquet files that Spark, DuckDB and Trino all read, and their names in Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from core.data.files.detection import check_names
from core.data.files.messages import RejectedFile
from pipelines.duckdb.values import ValueType

MAX_PRECISION = 38
INTEGERS = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint"}
UNSIGNED = {"uint8": pa.int16(), "uint16": pa.int32(), "uint32": pa.int64(), "uint64": pa.decimal128(20, 0)}


def normalize_schema(schema: Any) -> Any:
    """Return the schema with types that all engines read; raise RejectedFile for names that two columns share."""
    check_names([field.name for field in schema])
    return pa.schema([pa.field(field.name, normalize_type(field.type)) for field in schema])


def check_field_names(type: Any, column: str) -> None:
    """Raise RejectedFile for a row whose fields differ in nothing but case, at any depth: engines know no case."""
    fields = [type.field(position) for position in range(type.num_fields)]
    if pa.types.is_struct(type) and len({each.name.casefold() for each in fields}) < len(fields):
        sentence = f"The column '{column}' has rows with two fields of one name. Give each field a name of its own."
        raise RejectedFile("duplicate-column", sentence)
    for each in fields:
        check_field_names(each.type, column)


def normalize_type(type: Any) -> Any:
    """Return the type itself or the next wider one: text for times of day, intervals and what has no equivalent."""
    types = pa.types
    if type in UNSIGNED_TYPES:
        return UNSIGNED_TYPES[type]
    if types.is_dictionary(type):
        return normalize_type(type.value_type)
    if types.is_float16(type):
        return pa.float32()
    if types.is_timestamp(type):
        return pa.timestamp("us", "UTC" if type.tz else None)
    if types.is_date(type):
        return pa.date32()
    if types.is_decimal(type) and type.precision <= MAX_PRECISION:
        return pa.decimal128(type.precision, type.scale)
    if types.is_large_binary(type) or types.is_fixed_size_binary(type) or types.is_binary_view(type):
        return pa.binary()
    if types.is_list(type) or types.is_large_list(type) or types.is_fixed_size_list(type):
        return pa.list_(normalize_type(type.value_type))
    if types.is_struct(type):
        return pa.struct([pa.field(each.name, normalize_type(each.type)) for each in type])
    if types.is_map(type):
        return pa.map_(normalize_type(type.key_type), normalize_type(type.item_type))
    kept = types.is_boolean(type) or types.is_signed_integer(type) or types.is_floating(type) or types.is_binary(type)
    return type if kept else pa.string()


UNSIGNED_TYPES = {pa.type_for_alias(name): wider for name, wider in UNSIGNED.items()}


def describe_columns(schema: Any) -> list[dict[str, str]]:
    """Return the columns of a normalized schema with Spark's names of their types."""
    return [{"name": field.name, "type": name_type(field.type)} for field in schema]


def describe_value_type(type: Any) -> ValueType:
    """Return a normalized type as far as JSON depends on it."""
    types = pa.types
    if types.is_list(type):
        return ValueType("array", (describe_value_type(type.value_type),))
    if types.is_map(type):
        return ValueType("map", (describe_value_type(type.key_type), describe_value_type(type.item_type)))
    if types.is_struct(type):
        return ValueType("row", tuple(describe_value_type(each.type) for each in type))
    return ValueType("real" if type == pa.float32() else str(type))


def name_type(type: Any) -> str:
    """Return Spark's name of a normalized type."""
    types = pa.types
    if str(type) in INTEGERS:
        return INTEGERS[str(type)]
    if types.is_boolean(type):
        return "boolean"
    if types.is_floating(type):
        return "float" if type.bit_width == 32 else "double"
    if types.is_timestamp(type):
        return "timestamp" if type.tz else "timestamp_ntz"
    if types.is_date(type):
        return "date"
    if types.is_decimal(type):
        return f"decimal({type.precision},{type.scale})"
    if types.is_binary(type):
        return "binary"
    if types.is_list(type):
        return f"array<{name_type(type.value_type)}>"
    if types.is_map(type):
        return f"map<{name_type(type.key_type)},{name_type(type.item_type)}>"
    if types.is_struct(type):
        return f"struct<{','.join(f'{each.name}:{name_type(each.type)}' for each in type)}>"
    return "string"
