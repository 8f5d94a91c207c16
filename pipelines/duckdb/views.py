"""Files as views of DuckDB, and quoted names and texts. The service imports this without DuckDB itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

WEB = ("http://", "https://")
_FILE = "__spindle_file"  # the column with a row's file
_TEXTS = ("TEXT", "VARCHAR")


@dataclass(frozen=True, slots=True)
class View:
    """A table of the query: its Parquet files, or its columns with DuckDB's types when it has no rows.

    The values of the columns `partition_by` are in the names of the files' folders. With `complete` it has exactly its
    `columns`: one that all files of a table lack was added to it later.
    """

    name: str
    files: Sequence[str]
    columns: Sequence[tuple[str, str]]
    partition_by: Sequence[str] = ()
    complete: bool = False

    def define(self, groups: Sequence[Sequence[str]]) -> str:
        """Return the query of the view; each group of its files is read in the types of these files."""
        return self.combine([f"FROM {self.read(files)}" for files in groups])

    def combine(self, reads: Sequence[str]) -> str:
        """Return the query of the view from the queries of groups of its files."""
        nulls = ", ".join(f"NULL::{type} AS {quote_identifier(name)}" for name, type in self.columns)
        if not self.files:
            return f"SELECT {nulls} WHERE false"
        if self.complete:
            reads = [*reads, f"SELECT {nulls} WHERE false"]
        source = reads[0] if len(reads) == 1 else f"FROM ({' UNION ALL BY NAME '.join(reads)})"
        if not (self.complete or self.partition_by):
            return source
        return f"SELECT {', '.join(quote_identifier(name) for name, _ in self.columns)} {source}"

    def read(self, files: Sequence[str]) -> str:
        """Return the table expression of files.

        Writers leave NaN out of the bounds of a row group, and DuckDB would not look for it there.
        """
        names = ", ".join(map(quote_literal, files))
        arguments = f"[{names}], union_by_name = true, can_have_nan = true"
        return build_reader_call("read_parquet", arguments, files, self.columns, self.partition_by)


def build_reader_call(
    reader: str,
    arguments: str,
    files: Sequence[str],
    columns: Sequence[tuple[str, str]],
    partition_by: Sequence[str],
) -> str:
    """Return the table expression of DuckDB's reader with these arguments, and with the values in names of folders.

    DuckDB decodes these once. Those in addresses of the web are encoded twice: by the writer, and in the address. The
    text `null` is a value in a folder's name, which DuckDB takes for NULL in any case of letters.
    """
    if not partition_by:
        return f"{reader}({arguments}, hive_partitioning = false)"
    types = {quote_identifier(name): type for name, type in columns if name in partition_by}
    encoded = any(file.startswith(WEB) for file in files)
    read = (f"{name}: {quote_literal('VARCHAR' if encoded else type)}" for name, type in types.items())
    arguments = f"{arguments}, hive_partitioning = true, hive_types = {{{', '.join(read)}}}"
    cells = {name: f"CAST(url_decode({name}) AS {type})" for name, type in types.items()} if encoded else {}
    nulls = _find_null_texts(files, columns, partition_by)
    for name, pattern in nulls.items():
        text = f"nullif(regexp_extract({_FILE}, {quote_literal(pattern)}, 1, 'i'), '')"
        cells[name] = f"coalesce({cells.get(name, name)}, {text})"
    if not cells:
        return f"{reader}({arguments})"
    named, left_out = (f", filename = '{_FILE}'", f"EXCLUDE ({_FILE}) ") if nulls else ("", "")
    replaced = ", ".join(f"{cell} AS {name}" for name, cell in cells.items())
    return f"(SELECT * {left_out}REPLACE ({replaced}) FROM {reader}({arguments}{named}))"  # noqa: S608 - names are quoted


def _find_null_texts(
    files: Sequence[str], columns: Sequence[tuple[str, str]], partition_by: Sequence[str]
) -> dict[str, str]:
    """Return quoted columns of text with a folder for the text `null`, and the pattern that finds it in a path."""
    types, found = dict(columns), dict[str, str]()
    for depth, name in enumerate(reversed(partition_by), 1):
        pattern = rf"=(null)(?:/[^/?]*){{{depth}}}(?:\?.*)?$"
        if types.get(name) in _TEXTS and any(re.search(pattern, file, re.IGNORECASE) for file in files):
            found[quote_identifier(name)] = pattern
    return found


def quote_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def quote_identifier(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
