"""Conversion of CSV, JSON lines and Parquet files to one Parquet file that all engines read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from core.data.files.detection import MAX_COLUMNS, MAX_RATIO, RATIO_FREE_BYTES, SAMPLE, CsvDialect, check_names
from core.data.files.messages import RejectedFile
from core.data.files.stored_columns import convert_column, fit_column
from core.data.files.types import check_field_names, describe_columns, describe_value_type, normalize_schema
from core.data.files.wanted_types import WantedTypes
from pipelines.duckdb.lockdown import open_database
from pipelines.duckdb.values import make_converter
from pipelines.duckdb.views import quote_literal
from pipelines.engine.csv_records import describe_fault, read_records
from pipelines.engine.json_rows import InvalidRow, Values, convert_values, read_object, read_value
from pipelines.engine.text_types import CSV_KINDS, Texts, convert_texts

MEMORY = "1GB"
BATCH_ROWS = 16_384
GROUP_ROWS = 131_072
GROUP_BYTES = 64 * 2**20
PREVIEW_ROWS = 20
PREVIEW_CHARACTERS = 500
MAX_LINE_BYTES = 16 * 2**20
OUT_OF_MEMORY = "Out of Memory"


@dataclass(slots=True)
class Written:
    """A Parquet file: its columns under Spark's type names, its size, and its first rows as JSON text."""

    columns: list[dict[str, str]]
    rows: int = 0
    bytes: int = 0
    preview: str = "[]"
    warnings: Sequence[str] = ()


def convert_csv(source: Path, dialect: CsvDialect, target: Path, wanted: WantedTypes) -> Written:
    """Convert a CSV file; the type of a column is the wanted one or one that all of its values have, or else text.

    A file that DuckDB refuses has a row that is named, or lines that do not end alike, and is written again.
    """
    with open_database(MEMORY, str(target.parent)) as connection:
        try:
            return _convert_csv(connection, source, dialect, target, wanted)
        except duckdb.Error as error:
            if (rejected := _describe_error(error, "CSV")).code != "invalid-file" or OUT_OF_MEMORY in str(error):
                raise rejected from error
        even = target.parent / "even.csv"
        _write_even_lines(source, dialect, even)
        try:
            return _convert_csv(connection, even, dialect, target, wanted)
        except duckdb.Error as error:
            raise _describe_error(error, "CSV") from error


def _convert_csv(
    connection: duckdb.DuckDBPyConnection, source: Path, dialect: CsvDialect, target: Path, wanted: WantedTypes
) -> Written:
    table = _read_csv(source, dialect)
    columns = {name: Texts(CSV_KINDS) for name in dialect.names}
    for batch in _read_batches(connection, table):
        for (name, texts), cells in zip(columns.items(), batch.columns, strict=True):
            texts.add(cells)
            wanted.check(name, partial(_convert_texts, cells))
    schema = wanted.build_schema(columns)
    return _write((_convert_cells(batch, schema) for batch in _read_batches(connection, table)), target, schema)


def _write_even_lines(source: Path, dialect: CsvDialect, target: Path) -> None:
    """Write the records of a CSV file with equal line ends. Raises RejectedFile with the line of a faulty one."""
    with source.open(encoding="utf-8", newline="") as lines, target.open("w", encoding="utf-8", newline="") as even:
        for line, record in read_records(lines, dialect.delimiter):
            if record and (fault := describe_fault(record, dialect.delimiter, len(dialect.names))):
                raise RejectedFile("invalid-file", f"The row in line {line} {fault}.")
            even.write(f"{record}\n")


def convert_jsonl(source: Path, target: Path, wanted: WantedTypes) -> Written:
    """Convert JSON lines, or one array of objects; types are as in `convert_csv`, and mixed values are text."""
    _check_end(source)
    with open_database(MEMORY, str(target.parent)) as connection:
        try:
            values = Values()
            for rows in read_objects(connection, [str(source)]):
                values.add(rows)
                for name in filter(wanted.has, values.fields):
                    wanted.check(name, partial(convert_values, [row.get(name) for row in rows]))
            schema = _decide_schema(values, wanted)
            return _write(
                (_convert_objects(rows, schema) for rows in read_objects(connection, [str(source)])), target, schema
            )
        except InvalidRow as error:
            raise RejectedFile("invalid-file", f"A row of the JSON cannot be read: {error}.") from error
        except duckdb.Error as error:
            raise _describe_json_error(error, source) from error


def _check_end(source: Path) -> None:
    """Refuse an array of JSON that is cut behind a comma, which DuckDB takes for a whole one."""
    with source.open("rb") as file:
        start = file.read(SAMPLE)
        file.seek(max(0, source.stat().st_size - SAMPLE))
        if start.lstrip().startswith(b"[") and file.read().rstrip()[-1:] == b",":
            raise RejectedFile("truncated-upload", "The array of JSON ends behind a comma: a part of it is missing.")


def convert_parquet(source: Path, target: Path, max_bytes: int, wanted: WantedTypes) -> Written:
    """Copy a Parquet file whole, so that damaged pages show now, with types that all engines read.

    Columns of numbers and empty ones have the wanted types where those hold all values.
    """
    try:
        with pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as file:  # nanoseconds end in 2262
            size = sum(file.metadata.row_group(each).total_byte_size for each in range(file.metadata.num_row_groups))
            if size > min(max_bytes, max(RATIO_FREE_BYTES, source.stat().st_size * MAX_RATIO)):
                raise RejectedFile("too-large", "The Parquet file decompresses to more bytes than the limit.")
            return _write(file.iter_batches(BATCH_ROWS), target, _choose_types(file, wanted))
    except (pa.ArrowException, OSError) as error:
        raise RejectedFile("invalid-file", "The Parquet file is damaged or incomplete.") from error


def _choose_types(file: Any, wanted: WantedTypes) -> Any:
    """Return the schema of a Parquet file with the wanted types."""
    fields: list[Any] = []
    stored = [file.schema.column(position) for position in range(len(file.schema))]
    for name in (each.path.split(".")[0] for each in stored if each.converted_type == "INTERVAL"):
        sentence = f"The column '{name}' has intervals of months, which cannot be stored. Write them as text."
        raise RejectedFile("unsupported-format", sentence)
    for field in file.schema_arrow:
        check_field_names(field.type, field.name)
        is_empty = pa.types.is_null(field.type)
        if wanted.has(field.name, field.type) and "." not in field.name:  # which would name a part of a column
            is_empty = True
            for batch in file.iter_batches(BATCH_ROWS, columns=[field.name]):
                is_empty = is_empty and batch.column(0).null_count == batch.num_rows
                wanted.check(field.name, partial(fit_column, batch.column(0)))
        fields.append(pa.field(field.name, wanted.choose(field.name, field.type, is_empty)))
    return pa.schema(fields)


def _read_csv(source: Path, dialect: CsvDialect) -> str:
    columns = ", ".join(f"{quote_literal(name)}: 'VARCHAR'" for name in dialect.names)
    return (
        f"read_csv({quote_literal(str(source))}, auto_detect = false, delim = {quote_literal(dialect.delimiter)}, "
        f"quote = '\"', escape = '\"', header = {str(dialect.header).lower()}, skip = {dialect.blank_lines}, "
        f"columns = {{{columns}}}, "
        f"strict_mode = true, null_padding = false, allow_quoted_nulls = false, max_line_size = {MAX_LINE_BYTES})"
    )


def _read_batches(connection: duckdb.DuckDBPyConnection, table: str) -> Iterator[Any]:
    reader = connection.execute(f"FROM {table}").to_arrow_reader(BATCH_ROWS)
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except OSError as error:  # as which pyarrow passes DuckDB's errors on
            raise duckdb.Error(str(error)) from error
        yield batch


def _convert_cells(batch: Any, schema: Any) -> Any:
    columns = [_convert_texts(texts, field.type) for texts, field in zip(batch.columns, schema, strict=True)]
    return pa.record_batch(columns, schema=schema)


def _convert_texts(texts: Any, type: Any) -> Any:
    """Return the cells of a column in a type; those of lists, maps and rows are JSON."""
    if not pa.types.is_nested(type):
        return convert_texts(texts, type)
    return convert_values([None if text is None else read_value(text) for text in texts.to_pylist()], type)


def read_objects(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of JSON files, some at a time. Raises RejectedFile with the number of a row that is none."""
    names = f"[{', '.join(map(quote_literal, files))}]"
    table = f"read_json_objects({names}, format = 'auto', maximum_object_size = {MAX_LINE_BYTES})"
    number = 0
    for batch in _read_batches(connection, table):
        rows: list[dict[str, Any]] = []
        for text in batch.column(0).to_pylist():
            number += 1
            try:
                rows.append(read_object(text))
            except InvalidRow as error:
                raise RejectedFile("invalid-file", f"Row {number} of the JSON cannot be read: {error}.") from None
        yield rows


def _decide_schema(values: Values, wanted: WantedTypes) -> Any:
    """Return the columns of rows; raise RejectedFile where there are none, or too many."""
    if not values.has_object:
        raise RejectedFile("empty-file", "The file has no rows.")
    if len(values.fields) > MAX_COLUMNS:
        raise RejectedFile("invalid-header", f"The file has more than {MAX_COLUMNS} columns.")
    check_names([*values.fields])
    return wanted.build_schema(values.fields)


def _convert_objects(rows: list[dict[str, Any]], schema: Any) -> Any:
    columns = [convert_values([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.record_batch(columns, schema=schema)


def _write(batches: Iterable[Any], target: Path, schema: Any) -> Written:
    """Write record batches to a Parquet file, in row groups of moderate size."""
    normal = normalize_schema(schema)
    written, warnings = Written(describe_columns(normal)), set[str]()
    with pq.ParquetWriter(target, normal, compression="snappy") as writer:
        for group in _group(batches):
            table = pa.table(
                [convert_column(group[name], normal.field(name).type, name, warnings) for name in normal.names],
                schema=normal,
            )
            if not written.rows:
                written.preview = _write_preview(table.slice(0, PREVIEW_ROWS))
            written.rows += table.num_rows
            writer.write_table(table, row_group_size=GROUP_ROWS)
    written.bytes, written.warnings = target.stat().st_size, sorted(warnings)
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


def _write_preview(rows: Any) -> str:
    """Return the JSON of a table's rows; long texts are cut."""
    converters = {each.name: make_converter(describe_value_type(each.type)) for each in rows.schema}

    def shorten(value: Any) -> Any:
        return f"{value[:PREVIEW_CHARACTERS]}…" if isinstance(value, str) and len(value) > PREVIEW_CHARACTERS else value

    preview = [{name: shorten(converters[name](value)) for name, value in row.items()} for row in rows.to_pylist()]
    return msgspec.json.encode(preview).decode()


def _describe_json_error(error: duckdb.Error, source: Path) -> RejectedFile:
    """Return the error with the line or the row, of which DuckDB counts one more, and no blank lines."""
    found = re.search(r"in (line|record/value) (\d+): ([^.\"]{1,120})\.", str(error))
    rejected = _describe_error(error, "JSON")
    if found is None or rejected.code != "invalid-file":
        return rejected
    number = int(found[2]) - 1
    if found[1] == "line":
        with source.open("rb") as lines:
            filled = (position for position, line in enumerate(lines, 1) if line.strip())
            number = next(islice(filled, number - 1, None), number)
    where = "JSON in line" if found[1] == "line" else "JSON in row"
    return RejectedFile("invalid-file", f"The {where} {number} cannot be read: {found[3].strip()}.")


def _describe_error(error: duckdb.Error, format: str) -> RejectedFile:
    """Return the error with the line, without the name of the file."""
    text = str(error)
    if OUT_OF_MEMORY in text:
        return RejectedFile("invalid-file", f"The {format} file has a row that needs too much memory.")
    line = re.search(r"(?:on Line: |in line )(\d+)", text)
    where = f" in line {line[1]}" if line else ""
    if "unicode" in text.lower() or ("utf-8" in text.lower() and "utf8" in text.lower()):
        sentence = f"The file is not UTF-8{where}. Name its 'encoding', such as windows-1252."
        return RejectedFile("invalid-encoding", sentence)
    if "Maximum line size" in text or ("maximum_object_size" in text and "exceed" in text):
        return RejectedFile("invalid-file", f"A row{where} is longer than {MAX_LINE_BYTES // 2**20} MiB.")
    return RejectedFile("invalid-file", f"The {format}{where} cannot be read.")
