"""The names of columns and fields in the files of Iceberg, which are those that Avro allows. Runs in query processes.

Iceberg stores `unit price` as `unit_x20price` and finds it by a number; DuckDB finds columns by their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

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
    item = f"x{depth}"
    if wanted.id == "list":
        ((_, inner),), ((_, wanted_inner),) = found.children, wanted.children
        return f"list_transform({value}, lambda {item}: {_rename_fields(item, inner, wanted_inner, depth + 1)})"
    if wanted.id == "map":
        inner, wanted_inner = (dict(each.children)["value"] for each in (found, wanted))
        renamed = _rename_fields(f"{item}.value", inner, wanted_inner, depth + 1)
        entries = f"list_transform(map_entries({value}), lambda {item}: {{'key': {item}.key, 'value': {renamed}}})"
        return f"map_from_entries({entries})"
    if wanted.id != "struct":
        return value
    types, fields = dict(found.children), list[str]()
    for name, type in wanted.children:
        stored = _find_stored(name, types)
        field = f"struct_extract({value}, {quote_literal(stored)})" if stored is not None else f"NULL::{type}"
        cell = field if stored is None else _rename_fields(field, types[stored], type, depth)
        fields.append(f"{quote_identifier(name)} := {cell}")
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE struct_pack({', '.join(fields)}) END"
