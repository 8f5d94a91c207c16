"""Files of one table by the types of their columns. Runs in query processes.

DuckDB compares each Parquet file in that file's own type: over a column that is FLOAT in one file and DOUBLE in
another, `x = 1.1` finds 1.100000023841858. Files with other types are read by calls of their own, and cast afterwards.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

import duckdb

from pipelines.duckdb.views import quote_literal

REMEMBERED = 256  # versions of tables
Node = tuple[str, str, int]  # the name, the type and the number of fields of a column or of a part of one


class FileTypes:
    """Remembers which files of a version have the same types: files never change."""

    def __init__(self) -> None:
        self._groups: OrderedDict[tuple[str, ...], list[list[int]]] = OrderedDict()

    def group(self, connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> list[list[str]]:
        """Return the files in groups; those of a group have no column with different types."""
        if len(files) < 2:
            return [[*files]]
        names = tuple(file.partition("?")[0] for file in files)  # without the signature of a web address
        if names not in self._groups:
            self._groups[names] = _group(connection, files)
        self._groups.move_to_end(names)
        if len(self._groups) > REMEMBERED:
            self._groups.popitem(last=False)
        return [[files[place] for place in places] for places in self._groups[names]]


def _group(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> list[list[int]]:
    """Return the places of the files by the types of those columns that have several."""
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
    return sorted(sorted(group) for group in groups.values())


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
