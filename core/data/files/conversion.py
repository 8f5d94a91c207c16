"""Conversion of CSV, JSON lines and Parquet files to one Parquet file that all engines read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from core.data.duckdb.lockdown import open_database
from core.data.duckdb.values import make_converter
from core.data.duckdb.views import quote_identifier, quote_literal
from core.data.files.detection import MAX_RATIO, RATIO_FREE_BYTES, CsvDialect
from core.data.files.messages import RejectedFile
from core.data.files.types import describe_columns, describe_value_type, normalize_schema

MEMORY = "1GB"
BATCH_ROWS = 16_384
GROUP_ROWS = 131_072
GROUP_BYTES = 64 * 2**20
SAMPLE_ROWS = 20_480
PREVIEW_ROWS = 20
PREVIEW_CHARACTERS = 500
MAX_LINE_BYTES = 16 * 2**20

# DuckDB's types of text columns: what all of a column's values must look like, and its type then. DuckDB's own
# detection reads times of day and numbers of any length, and spaces around numbers: the columns would lose them.
CLOCK = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?"
PATTERNS = {
    "BOOLEAN": "(?i)true|false",
    "BIGINT": r"-?(0|[1-9]\d{0,17})",
    "DOUBLE": r"-?(0|[1-9]\d{0,14})(\.\d+)?([eE][+-]?\d{1,2})?",
    "DATE": r"\d{4}-\d{2}-\d{2}",
    "TIMESTAMP": CLOCK,
    "TIMESTAMPTZ": CLOCK + r"(Z|[+-]\d{2}(:\d{2})?)",
}
TIMES = ("DATE", "TIMESTAMP", "TIMESTAMPTZ")  # which may look right and not exist
WIDER = {"BIGINT": "DOUBLE"}


@dataclass(slots=True)
class Written:
    """A Parquet file: its columns under Spark's type names, its size, and its first rows as JSON text."""

    columns: list[dict[str, str]]
    rows: int = 0
    bytes: int = 0
    preview: str = "[]"


def convert_csv(source: Path, dialect: CsvDialect, target: Path) -> Written:
    """Convert a CSV file; the type of a column is one that all of its values have, or else text."""
    with open_database(MEMORY, str(target.parent)) as connection:
        table = _read_csv(source, dialect)
        try:
            types = _infer_types(connection, table, dialect.names)
            cells = (f"CAST({quote_identifier(name)} AS {types[name]}) AS {quote_identifier(name)}" for name in types)
            rows = connection.execute(f"FROM {table} SELECT {', '.join(cells)}")
            return _write(rows.to_arrow_reader(BATCH_ROWS), target)
        except duckdb.Error as error:
            raise _describe_error(error, "CSV") from error


def convert_jsonl(source: Path, target: Path) -> Written:
    """Convert JSON lines, or one array of objects; types are inferred from all rows, mixed ones are JSON text."""
    table = (
        f"read_json({quote_literal(str(source))}, format = 'auto', records = 'true', sample_size = -1, "
        f"maximum_object_size = {MAX_LINE_BYTES}, map_inference_threshold = -1)"
    )
    with open_database(MEMORY, str(target.parent)) as connection:
        try:
            return _write(connection.execute(f"FROM {table}").to_arrow_reader(BATCH_ROWS), target)
        except duckdb.Error as error:
            raise _describe_error(error, "JSON") from error


def convert_parquet(source: Path, target: Path, max_bytes: int) -> Written:
    """Copy a Parquet file whole, so that damaged pages show now, with types that all engines read."""
    try:
        with pq.ParquetFile(source) as file:
            size = sum(file.metadata.row_group(each).total_byte_size for each in range(file.metadata.num_row_groups))
            if size > min(max_bytes, max(RATIO_FREE_BYTES, source.stat().st_size * MAX_RATIO)):
                raise RejectedFile("too-large", "The Parquet file decompresses to more bytes than the limit.")
            return _write(file.iter_batches(BATCH_ROWS), target, file.schema_arrow)
    except (pa.ArrowException, OSError) as error:
        raise RejectedFile("invalid-file", "The Parquet file is damaged or incomplete.") from error


def _read_csv(source: Path, dialect: CsvDialect) -> str:
    columns = ", ".join(f"{quote_literal(name)}: 'VARCHAR'" for name in dialect.names)
    return (
        f"read_csv({quote_literal(str(source))}, auto_detect = false, delim = {quote_literal(dialect.delimiter)}, "
        f"quote = '\"', escape = '\"', header = {str(dialect.header).lower()}, columns = {{{columns}}}, "
        f"strict_mode = true, null_padding = false, allow_quoted_nulls = false, max_line_size = {MAX_LINE_BYTES})"
    )


def _infer_types(connection: duckdb.DuckDBPyConnection, table: str, names: Sequence[str]) -> dict[str, str]:
    """Return the type of each column: guessed from the first rows, and then checked with all rows."""
    sample = f"(FROM {table} LIMIT {SAMPLE_ROWS})"
    possible = _check_types(connection, sample, {name: tuple(PATTERNS) for name in names})
    guesses = {name: types or () for name, types in possible.items()}
    open_ = {name for name, types in possible.items() if types is None}  # nothing but nulls so far
    checks = {
        name: tuple(PATTERNS)
        if name in open_
        else tuple(dict.fromkeys([*types, *(WIDER[t] for t in types if t in WIDER)]))
        for name, types in guesses.items()
    }
    proven = _check_types(connection, table, {name: types for name, types in checks.items() if types})
    return {name: next(iter(proven.get(name) or ()), "VARCHAR") for name in names}


def _check_types(
    connection: duckdb.DuckDBPyConnection, table: str, checks: dict[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...] | None]:
    """Return for each column the types that all of its values have; None for a column of nulls."""
    pairs = [(name, type) for name, types in checks.items() for type in types]
    if not pairs:
        connection.execute(f"FROM {table} SELECT count(*)")
        return {}
    cells = ((quote_identifier(name), type) for name, type in pairs)
    rules = (f"bool_and({_match_type(cell, type)}) FILTER ({cell} IS NOT NULL)" for cell, type in cells)
    (*values,) = connection.execute(f"FROM {table} SELECT {', '.join(rules)}").fetchone() or ()
    found: dict[str, tuple[str, ...] | None] = dict.fromkeys(checks)
    for (name, type), value in zip(pairs, values, strict=True):
        if value is not None:
            found[name] = (*(found[name] or ()), *([type] if value else ()))
    return found


def _match_type(cell: str, type: str) -> str:
    """Return the condition that a text is a value of the type."""
    matches = f"regexp_full_match({cell}, {quote_literal(PATTERNS[type])})"
    return f"{matches} AND try_cast({cell} AS {type}) IS NOT NULL" if type in TIMES else matches


def _write(batches: Iterable[Any], target: Path, schema: Any = None) -> Written:
    """Write record batches to a Parquet file, in row groups of moderate size."""
    source = schema if schema is not None else batches.schema  # type: ignore[attr-defined]
    normal = normalize_schema(source)
    written = Written(describe_columns(normal))
    with pq.ParquetWriter(target, normal, compression="snappy") as writer:
        for group in _group(batches):
            table = pa.table(
                [_cast(group[name], normal.field(name).type, name) for name in normal.names], schema=normal
            )
            if not written.rows:
                written.preview = _write_preview(table.slice(0, PREVIEW_ROWS))
            written.rows += table.num_rows
            writer.write_table(table, row_group_size=GROUP_ROWS)
    written.bytes = target.stat().st_size
    return written


def _group(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield tables of some batches each."""
    pending: list[Any] = []
    for batch in batches:
        if batch.num_rows:
            pending.append(batch)
        if sum(each.num_rows for each in pending) >= GROUP_ROWS or sum(each.nbytes for each in pending) >= GROUP_BYTES:
            yield pa.Table.from_batches(pending)
            pending = []
    if pending:
        yield pa.Table.from_batches(pending)


def _cast(column: Any, type: Any, name: str) -> Any:
    if column.type == type:
        return column
    try:
        return pc.cast(column, type, safe=False)
    except pa.ArrowNotImplementedError:
        if type == pa.string():
            return pa.chunked_array([pa.array([None if v is None else str(v) for v in column.to_pylist()], type)])
        sentence = f"The column '{name}' has the type {column.type}, which cannot be stored."
        raise RejectedFile("unsupported-format", sentence) from None


def _write_preview(rows: Any) -> str:
    """Return the JSON of a table's rows; long texts are cut."""
    converters = {each.name: make_converter(describe_value_type(each.type)) for each in rows.schema}

    def shorten(value: Any) -> Any:
        return f"{value[:PREVIEW_CHARACTERS]}…" if isinstance(value, str) and len(value) > PREVIEW_CHARACTERS else value

    preview = [{name: shorten(converters[name](value)) for name, value in row.items()} for row in rows.to_pylist()]
    return msgspec.json.encode(preview).decode()


def _describe_error(error: duckdb.Error, format: str) -> RejectedFile:
    """Return the error with the line, without the name of the file."""
    text = str(error)
    if isinstance(error, duckdb.OutOfMemoryException):
        return RejectedFile("invalid-file", f"The {format} file has a row that needs too much memory.")
    line = re.search(r"(?:on Line: |in line )(\d+)", text)
    where = f" in line {line[1]}" if line else ""
    if "unicode" in text.lower() or ("utf-8" in text.lower() and "utf8" in text.lower()):
        sentence = f"The file is not UTF-8{where}. Name its 'encoding', such as windows-1252."
        return RejectedFile("invalid-encoding", sentence)
    if counts := re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", text):
        return RejectedFile("invalid-file", f"A row{where} has {counts[2]} values; the header has {counts[1]}.")
    if "unterminated quote" in text:
        return RejectedFile("invalid-file", f"A quote{where} is not closed; the file may be cut off.")
    if "Maximum line size" in text or ("maximum_object_size" in text and "exceed" in text):
        return RejectedFile("invalid-file", f"A row{where} is longer than {MAX_LINE_BYTES // 2**20} MiB.")
    reason = re.search(r"in line \d+: ([^.\"]{1,120})\.", text)
    why = f": {reason[1].strip()}" if reason else ""
    return RejectedFile("invalid-file", f"The {format}{where} cannot be read{why}.")
