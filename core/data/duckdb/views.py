"""Files as views of DuckDB, and quoted names and texts. The service imports this without DuckDB itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WEB = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class View:
    """A table of the query: its Parquet files, or its columns with DuckDB's types when it has no rows.

    The values of the columns `partition_by` are in the names of the files' folders. A column that all files of a table
    lack was added to it later, so `columns` of tables are `complete`.
    """

    name: str
    files: Sequence[str]
    columns: Sequence[tuple[str, str]]
    partition_by: Sequence[str] = ()
    complete: bool = False

    @property
    def definition(self) -> str:
        nulls = ", ".join(f"NULL::{type} AS {quote_identifier(name)}" for name, type in self.columns)
        if not self.files:
            return f"SELECT {nulls} WHERE false"
        files = ", ".join(quote_literal(file) for file in self.files)
        arguments = f"[{files}], union_by_name = true"
        read = f"FROM {build_reader_call('read_parquet', arguments, self.files, self.columns, self.partition_by)}"
        names = ", ".join(quote_identifier(name) for name, _ in self.columns)
        if self.complete:
            return f"SELECT {names} FROM ({read} UNION ALL BY NAME SELECT {nulls} WHERE false)"  # noqa: S608 - names are quoted
        return f"SELECT {names} {read}" if self.partition_by else read


def build_reader_call(
    reader: str,
    arguments: str,
    files: Sequence[str],
    columns: Sequence[tuple[str, str]],
    partition_by: Sequence[str],
) -> str:
    """Return the table expression of DuckDB's reader with these arguments, and with the values in names of folders.

    DuckDB decodes these once. Those in addresses of the web are encoded twice: by the writer, and in the address.
    """
    if not partition_by:
        return f"{reader}({arguments}, hive_partitioning = false)"
    types = {quote_identifier(name): type for name, type in columns if name in partition_by}
    encoded = any(file.startswith(WEB) for file in files)
    read = (f"{name}: {quote_literal('VARCHAR' if encoded else type)}" for name, type in types.items())
    table = f"{reader}({arguments}, hive_partitioning = true, hive_types = {{{', '.join(read)}}})"
    if not encoded:
        return table
    cells = (f"CAST(url_decode({name}) AS {type}) AS {name}" for name, type in types.items())
    return f"(SELECT * REPLACE ({', '.join(cells)}) FROM {table})"  # noqa: S608 - names are quoted


def quote_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def quote_identifier(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
