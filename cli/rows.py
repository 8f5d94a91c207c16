"""The rows of `spindle run` as a table on the terminal."""

from __future__ import annotations

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from cli.row_files import format_cell
from cli.terminal import escape_text, format_count
from pipelines.language.json_values import list_records

MAX_PRINTED_ROWS = 50
_MAX_CELL_LENGTH = 80


def print_rows(console: Console, rows: pa.Table, count: int) -> None:
    """Print the first rows of `count`."""
    columns = rows.column_names
    table = Table(*columns)
    for row in list_records(rows, _MAX_CELL_LENGTH):
        table.add_row(*(escape_text("" if row[name] is None else str(format_cell(row[name]))) for name in columns))
    Console().print(table, markup=False)
    more = f", the first {rows.num_rows} shown; -o FILE writes them all" if count > rows.num_rows else ""
    console.print(f"{format_count(count, 'rows')}{more}", markup=False)
