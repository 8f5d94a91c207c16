"""The file of `spindle run -o`: Parquet, CSV, JSON, JSON lines, or a table of SQLite."""

from __future__ import annotations

import csv
import json
import sqlite3
import uuid
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import RunError, summarize_error
from pipelines.language.formats import Mode
from pipelines.language.json_values import list_records

SQLITE = (".sqlite", ".sqlite3", ".db")
_FORMATS = (".parquet", ".csv", ".json", ".jsonl", *SQLITE)
_TABLE = "rows"
_MAX_INT = 2**53  # up to here a double holds every whole number


def check_output_file(path: Path, append: bool = False) -> None:
    """Raise RunError when the file cannot be written, so that nothing is crawled in vain; change no existing file."""
    if path.suffix not in _FORMATS:
        raise RunError(f"{path}: the name must end in one of {', '.join(_FORMATS)}")
    try:
        if path.exists():
            path.open("ab").close()
        TemporaryFile(dir=path.parent).close()
        if append and path.exists():
            _check_earlier(path)
    except (OSError, ValueError, pa.ArrowException, sqlite3.Error) as error:
        raise RunError(f"{path} cannot be written: {summarize_error(error)}") from error


def _check_earlier(path: Path) -> None:
    """Raise an error for a file that is none of its format."""
    if path.suffix == ".parquet":
        pq.read_schema(path)
    elif path.suffix == ".csv":
        _read_header(path)
    elif path.suffix == ".json":
        _read_list(path)
    elif path.suffix in SQLITE:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()


def write_rows(rows: pa.Table, path: Path, append: bool = False) -> None:
    """Write the rows in the format of the file's name, in place of its earlier rows or after them.

    Columns that only the earlier or only the new rows have are null in the others.
    """
    path, append = path.resolve(), append and path.exists()
    if path.suffix in SQLITE:
        _write_sqlite(rows, path, append)
    elif path.suffix == ".parquet":
        _write_parquet(rows, path, append)
    elif path.suffix == ".jsonl":
        _write_lines(rows, path, append)
    elif path.suffix == ".json":
        records = [*(_read_list(path) if append else ()), *list_records(_convert_decimals(rows))]
        with _replace(path) as new:
            new.write_text(json.dumps(records, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    else:
        _write_csv(rows, path, append)


@contextmanager
def _replace(path: Path) -> Generator[Path]:
    """Provide a new file that takes the place of `path` when it is complete."""
    new = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        yield new
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _write_parquet(rows: pa.Table, path: Path, append: bool) -> None:
    if append:
        try:
            rows = pa.concat_tables([pq.read_table(path), rows], promote_options="permissive")
        except pa.ArrowException as error:
            reason = summarize_error(error)
            raise RunError(f"the rows do not fit those of {path}: {reason}; write another file") from error
    with _replace(path) as new:
        pq.write_table(rows, new)


def _write_lines(rows: pa.Table, path: Path, append: bool) -> None:
    lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in list_records(_convert_decimals(rows)))
    if append:
        with path.open("rb+") as file:
            size = file.seek(0, 2)
            if size:
                file.seek(-1, 2)
            separator = b"\n" if size and file.read(1) != b"\n" else b""
            file.write(separator + lines.encode())
    else:
        with _replace(path) as new:
            new.write_text(lines, encoding="utf-8")


def _convert_decimals(rows: pa.Table) -> pa.Table:
    """Return the rows with columns of decimals as the numbers of JSON, or as text where a double is not exact."""
    for position, field in enumerate(rows.schema):
        if pa.types.is_decimal(field.type):
            values: list[Decimal | None] = rows.column(position).to_pylist()
            numbers = [None if value is None else _to_number(value) for value in values]
            if all(value is None or number is not None for value, number in zip(values, numbers, strict=True)):
                type_ = pa.float64() if field.type.scale else pa.int64()
                rows = rows.set_column(position, field.name, pa.array(numbers, type_))
    return rows


def _to_number(value: Decimal) -> float | None:
    """Return a number that JSON readers with doubles read exactly, or None."""
    number = float(value)
    return number if Decimal(repr(number)) == value and abs(number) < _MAX_INT else None


def _write_csv(rows: pa.Table, path: Path, append: bool) -> None:
    header, names, records = _read_header(path) if append else [], rows.column_names, list_records(rows)
    if header and {*names} <= {*header}:
        with path.open("a", newline="", encoding="utf-8") as file:
            _write_records(file, header, records)
        return
    with _replace(path) as new, new.open("w", newline="", encoding="utf-8") as file:
        columns = [*header, *(name for name in names if name not in header)]
        csv.writer(file).writerow(columns)
        if header:
            with path.open(newline="", encoding="utf-8") as earlier:
                _write_records(file, columns, csv.DictReader(earlier))
        _write_records(file, columns, records)


def _write_records(file: Any, columns: Sequence[str], records: Iterable[Mapping[str, Any]]) -> None:
    writer = csv.writer(file)
    writer.writerows([format_cell(record.get(name)) for name in columns] for record in records)


def _read_header(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8") as file:
        return next(csv.reader(file), [])


def _read_list(path: Path) -> list[Any]:
    found = json.loads(path.read_text(encoding="utf-8") or "[]")
    if not isinstance(found, list):
        raise ValueError("it is no list of rows")
    return found


def _write_sqlite(rows: pa.Table, path: Path, append: bool) -> None:
    from pipelines.engine.databases import TableWrite, open_sqlite, write_to_database

    write = TableWrite(_TABLE, Mode.APPEND, adds_columns=True)
    if append:
        write_to_database(open_sqlite(path), write, rows.schema, rows.to_batches())
        return
    with _replace(path) as new:
        write_to_database(open_sqlite(new), write, rows.schema, rows.to_batches())


def format_cell(value: Any) -> Any:
    """Return a value for a text cell: JSON for nested values."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
