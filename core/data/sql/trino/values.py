"""Trino's types and values: their names without lengths, as Python's and JSON's values, and as Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from dateutil.relativedelta import relativedelta
from trino.types import NamedRowTuple

from core.data.sql.engine import report_size_limit
from pipelines.duckdb.values import ValueType

Signature = dict[str, Any]
ROW_GROUP = 50_000
SIMPLE = {
    "boolean": "bool",
    "tinyint": "int8",
    "smallint": "int16",
    "integer": "int32",
    "bigint": "int64",
    "real": "float32",
    "double": "float64",
    "varbinary": "binary",
    "date": "date32",
}


def name_type(signature: Signature) -> str:
    """Return a type's name as both engines give it: lengths and precisions only of decimals."""
    raw, arguments = signature["rawType"], signature["arguments"]
    if raw == "decimal":
        return f"decimal({arguments[0]['value']}, {arguments[1]['value']})"
    if raw in ("array", "map"):
        return f"{raw}({', '.join(name_type(each['value']) for each in arguments)})"
    if raw == "row":
        return f"row({', '.join(_name_field(each['value']) for each in arguments)})"
    return raw


def describe_type(signature: Signature) -> ValueType:
    """Return a type as far as JSON depends on it."""
    raw, arguments = signature["rawType"], signature["arguments"]
    if raw in ("array", "map"):
        return ValueType(raw, tuple(describe_type(each["value"]) for each in arguments))
    if raw == "row":
        return ValueType(raw, tuple(describe_type(each["value"]["typeSignature"]) for each in arguments))
    return ValueType(raw)


def plain_value(value: Any) -> Any:
    """Return a value in the types that DuckDB's Python API has too."""
    if isinstance(value, NamedRowTuple):
        return {name: plain_value(item) for name, item in zip(_list_fields(value), value, strict=True)}
    if isinstance(value, list):
        return [plain_value(item) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {key: plain_value(item) for key, item in cast(dict[Any, Any], value).items()}
    if isinstance(value, relativedelta):
        return f"P{value.years}Y{value.months}M"
    return value


class ParquetRows:
    """A Parquet file that gets rows in batches; it is written in row groups."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._writer: Any = None
        self._rows: list[Sequence[Any]] = []
        self.count = 0

    def write(self, columns: Sequence[dict[str, Any]], names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add rows. Raises TooLarge."""
        self._rows.extend(rows)
        self.count += len(rows)
        if len(self._rows) >= ROW_GROUP:
            self._flush(columns, names)
        if self._path.exists() and self._path.stat().st_size > self._max_bytes:
            raise report_size_limit(self._max_bytes)

    def close(self, columns: Sequence[dict[str, Any]], names: Sequence[str]) -> None:
        self._flush(columns, names)
        self._writer.close()

    def _flush(self, columns: Sequence[dict[str, Any]], names: Sequence[str]) -> None:
        import pyarrow as pa  # here, because most processes never store a result
        import pyarrow.parquet as pq

        types = [_to_arrow(column["typeSignature"]) for column in columns]
        schema = pa.schema([pa.field(name, type) for name, type in zip(names, types, strict=True)])
        if self._writer is None:
            self._writer = pq.ParquetWriter(str(self._path), schema)
        arrays = [
            pa.array([_to_storable(row[position]) for row in self._rows], type) for position, type in enumerate(types)
        ]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        self._rows = []


def _to_arrow(signature: Signature) -> Any:
    import pyarrow as pa

    raw, arguments = signature["rawType"], signature["arguments"]
    if raw in SIMPLE:
        return pa.type_for_alias(SIMPLE[raw])
    if raw == "decimal":
        return pa.decimal128(arguments[0]["value"], arguments[1]["value"])
    if raw in ("timestamp", "timestamp with time zone"):
        return pa.timestamp("us", "UTC" if raw.endswith("zone") else None)
    if raw == "array":
        return pa.list_(_to_arrow(arguments[0]["value"]))
    if raw == "map":
        return pa.map_(_to_arrow(arguments[0]["value"]), _to_arrow(arguments[1]["value"]))
    if raw == "row":
        fields = [
            (_get_field_name(each["value"], n), each["value"]["typeSignature"]) for n, each in enumerate(arguments)
        ]
        return pa.struct([pa.field(name, _to_arrow(type)) for name, type in fields])
    return pa.string()


def _to_storable(value: Any) -> Any:
    """Return a value as Arrow takes it; text for values that Parquet has no type for."""
    if isinstance(value, NamedRowTuple):
        names = _list_fields(value)
        return {name: _to_storable(item) for name, item in zip(names, value, strict=True)}
    if isinstance(value, list):
        return [_to_storable(item) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return [(key, _to_storable(item)) for key, item in cast(dict[Any, Any], value).items()]
    if isinstance(value, timedelta):
        return f"PT{value.total_seconds():g}S"
    if isinstance(value, relativedelta):
        return plain_value(value)
    return str(value) if isinstance(value, UUID) else value


def _list_fields(row: Any) -> list[str]:
    """Return the names of a row's fields; those without one are numbered."""
    names: Sequence[str | None] = row.__annotations__["names"]
    return [name or f"_{position}" for position, name in enumerate(names)]


def _get_field_name(field: dict[str, Any], position: int) -> str:
    named = field.get("fieldName")
    return named["name"] if named else f"_{position}"


def _name_field(field: dict[str, Any]) -> str:
    named, type = field.get("fieldName"), name_type(field["typeSignature"])
    return f"{named['name']} {type}" if named else type
