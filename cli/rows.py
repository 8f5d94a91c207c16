"""The rows of `spindle run`: as a table on the terminal, or in a file."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from cli.terminal import escape_text, format_count
from pipelines.errors import RunError, summarize_error
from pipelines.language.json_values import list_records

MAX_PRINTED_ROWS = 50
_FORMATS = (".parquet", ".csv", ".json", ".jsonl")
_MAX_CELL_LENGTH = 80


def check_output_file(path: Path) -> None:
    """Raise RunError when the file cannot be written, so that nothing is crawled in vain; change no existing file."""
    if path.suffix not in _FORMATS:
        raise RunError(f"{path}: the name must end in one of {', '.join(_FORMATS)}")
    try:
        if path.exists():
            path.open("ab").close()
        else:
            TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise RunError(f"{path} cannot be written: {summarize_error(error)}") from error


def write_rows(rows: pa.Table, path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(rows, path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in list_records(rows)))
    elif path.suffix == ".json":
        path.write_text(json.dumps(list_records(rows), ensure_ascii=False, indent=1) + "\n")
    else:
        _write_csv(rows, path)


def _write_csv(rows: pa.Table, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows.column_names)
        writer.writeheader()
        for record in list_records(rows):
            writer.writerow({name: format_cell(value) for name, value in record.items()})


def format_cell(value: Any) -> Any:
    """Return a value for a text cell: JSON for nested values."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def print_rows(console: Console, rows: pa.Table, count: int) -> None:
    """Print the first rows of `count`."""
    columns = rows.column_names
    table = Table(*columns)
    for row in list_records(rows, _MAX_CELL_LENGTH):
        table.add_row(*(escape_text("" if row[name] is None else str(format_cell(row[name]))) for name in columns))
    Console().print(table, markup=False)
    more = f", the first {rows.num_rows} shown; -o FILE writes them all" if count > rows.num_rows else ""
    console.print(f"{format_count(count, 'rows')}{more}", markup=False)
