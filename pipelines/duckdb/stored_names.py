"""The names of columns and fields in the files of Iceberg, which are those that Avro allows. Runs in query processes.

Iceberg stores `unit price` as `unit_x20price` and finds it by a number; DuckDB finds columns by their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import cast

import duckdb
from duckdb.sqltypes import DuckDBPyType

from pipelines.duckdb.views import View, quote_identifier, quote_literal

_STORED_AS_IT_IS = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def needs_names(columns: Iterable[tuple[str, str]]) -> bool:
    """Return whether files of these columns, with DuckDB's types, may have other names: DuckDB quotes such fields."""
    return any('"' in type or not _STORED_AS_IT_IS.fullmatch(name) for name, type in columns)


def read_by_names(connection: duckdb.DuckDBPyConnection, view: View, files: Sequence[str]) -> str:
    """Return a query of the view's columns that files have, under the names of the view."""
    read = view.read(files)
    described = connection.execute(f"DESCRIBE FROM {read}").fetchall()
    stored = {name: duckdb.sqltype(type) for name, type, *_ in described}
    cells = list[str]()
    for name, type in view.columns:
        if (found := _find_stored(name, stored)) is not None:
            cell = _rename_fields(quote_identifier(found), stored[found], duckdb.sqltype(type))
            cells.append(f"{cell} AS {quote_identifier(name)}")
    return f"SELECT {', '.join(cells) or 'NULL'} FROM {read}"  # noqa: S608 - names are quoted


def _find_stored(name: str, stored: Iterable[str]) -> str | None:
    """Return how a name is stored. Java writes a character beyond U+FFFF as two, Python as one."""
    from pyiceberg.schema import make_compatible_name  # loads pydantic, for the few tables with such names

    known = {each.lower(): each for each in stored}
    units = name.encode("utf-16-le")
    halves = "".join(chr(int.from_bytes(units[at : at + 2], "little")) for at in range(0, len(units), 2))
    likely = (name, make_compatible_name(name), make_compatible_name(halves))
    return next((known[each.lower()] for each in likely if each.lower() in known), None)


def _rename_fields(value: str, found: DuckDBPyType, wanted: DuckDBPyType, depth: int = 0) -> str:
    """Return an expression of a value whose fields have the wanted names; null for a field that the files lack."""
    if '"' not in str(wanted) or found.id != wanted.id:
        return value
    item, parts, wanted_parts = f"x{depth}", _get_parts(found), _get_parts(wanted)
    if wanted.id == "list":
        renamed = _rename_fields(item, parts["child"], wanted_parts["child"], depth + 1)
        return f"list_transform({value}, lambda {item}: {renamed})"
    if wanted.id == "map":
        renamed = _rename_fields(f"{item}.value", parts["value"], wanted_parts["value"], depth + 1)
        entries = f"list_transform(map_entries({value}), lambda {item}: {{'key': {item}.key, 'value': {renamed}}})"
        return f"map_from_entries({entries})"
    fields = list[str]()
    for name, type in wanted_parts.items():
        cell = f"NULL::{type}"
        if (stored := _find_stored(name, parts)) is not None:
            cell = _rename_fields(f"struct_extract({value}, {quote_literal(stored)})", parts[stored], type, depth)
        fields.append(f"{quote_identifier(name)} := {cell}")
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE struct_pack({', '.join(fields)}) END"


def _get_parts(type: DuckDBPyType) -> dict[str, DuckDBPyType]:
    """Return the types of a struct's fields, of a map's key and value, or of a list's child."""
    return dict(cast("list[tuple[str, DuckDBPyType]]", type.children))
