"""Files of one table by the names and types of their columns. Runs in query processes.

DuckDB compares each Parquet file in that file's own type: over a column that is FLOAT in one file and DOUBLE in
another, `x = 1.1` finds 1.100000023841858. Files with other types are read by calls of their own, and cast afterwards.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import duckdb

from pipelines.duckdb.stored_names import needs_names, read_by_names
from pipelines.duckdb.views import View, quote_literal

REMEMBERED = 256  # versions of tables
Node = tuple[str, str, int]  # the name, the type and the number of fields of a column or of a part of one


@dataclass(frozen=True, slots=True)
class _Description:
    """The places of files in groups, of which none has a column with different types, and the names of all columns."""

    groups: list[list[int]]
    names: frozenset[str]


class FileTypes:
    """Remembers the names and types in the files of a version: files never change."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, ...], _Description] = OrderedDict()

    def define(self, connection: duckdb.DuckDBPyConnection, view: View) -> str:
        """Return the query of a view, which has the view's columns even where the files have others."""
        files, columns = view.files, frozenset(name.lower() for name, _ in view.columns)
        is_renamed = view.complete and needs_names(view.columns)
        if not files or (len(files) == 1 and not is_renamed and (view.complete or not columns)):
            return view.define([files])
        found = self._describe(connection, files)
        differs = bool(columns) and columns != found.names.union(map(str.lower, view.partition_by))
        groups = [[files[place] for place in places] for places in found.groups]
        if is_renamed:
            return view.combine([read_by_names(connection, view, group) for group in groups])
        return replace(view, complete=view.complete or differs).define(groups)

    def _describe(self, connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> _Description:
        paths = tuple(file.partition("?")[0] for file in files)  # without the signature of a web address
        if paths not in self._known:
            self._known[paths] = _describe(connection, files)
        self._known.move_to_end(paths)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return self._known[paths]


def _describe(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> _Description:
    """Return the places of the files by the types of those columns that have several, and the names of all."""
    paths = ", ".join(map(quote_literal, files))
    node = "struct_pack(name := lower(name), type := coalesce(duckdb_type, converted_type, ''), "
    node += "fields := coalesce(num_children, 0))"
    by_file = f"SELECT file_name, list({node} ORDER BY column_id) AS nodes FROM parquet_schema([{paths}]) "  # noqa: S608 - quoted
    sql = f"SELECT list(file_name), nodes FROM ({by_file} WHERE column_id > 0 GROUP BY file_name) GROUP BY nodes"  # noqa: S608
    places = {file: place for place, file in enumerate(files)}
    found: list[tuple[list[str], list[dict[str, object]]]] = connection.execute(sql).fetchall()
    schemas = [
        (
            [places[name] for name in names],
            dict(_split([(str(n["name"]), str(n["type"]), int(str(n["fields"]))) for n in nodes])),
        )
        for names, nodes in found
    ]
    types: dict[str, set[tuple[Node, ...]]] = {}
    for _, columns in schemas:
        for name, nodes in columns.items():
            types.setdefault(name, set()).add(nodes)
    mixed = [name for name, each in types.items() if len(each) > 1]
    groups: dict[tuple[tuple[Node, ...] | None, ...], list[int]] = {}
    for numbers, columns in schemas:
        groups.setdefault(tuple(columns.get(name) for name in mixed), []).extend(numbers)
    return _Description(sorted(sorted(group) for group in groups.values()), frozenset(types))


def _split(nodes: Sequence[Node]) -> Iterator[tuple[str, tuple[Node, ...]]]:
    """Yield the columns of a schema with their nodes; a node's fields follow it."""
    start = 0
    while start < len(nodes):
        end, open_ = start, 1
        while open_:
            open_ += nodes[end][2] - 1
            end += 1
        yield nodes[start][0], tuple(nodes[start:end])
        start = end
