"""Writing of a dataset's rows in another format to a stream, and the description of files that others wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from core.data.files.conversion import MEMORY, read_objects
from core.data.files.messages import DescribedFiles, DescribeRequest, ExportRequest, RejectedFile
from core.data.files.types import describe_columns, normalize_schema
from pipelines.duckdb.lockdown import load_avro, load_readers, open_database
from pipelines.duckdb.stored_names import needs_names, read_by_names
from pipelines.duckdb.views import WEB, View, build_reader_call, quote_identifier, quote_literal
from pipelines.engine.json_rows import InvalidRow, Values
from pipelines.language.formats import PARQUET_FORMATS, TABLE_FORMATS

ISO = "%Y-%m-%dT%H:%M:%S.%f"
EXPORT_MEMORY = "192MB"
AVRO = "read_avro"
NESTED = ("list", "array", "struct", "map", "union")
OPTIONS = {
    "csv": "FORMAT csv, HEADER true",
    "jsonl": "FORMAT json",
    "parquet": "FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 40960",
}


def export(request: ExportRequest, stream: str) -> None:
    """Write the rows of the files to a stream, in their order."""
    format = request.format
    with open_database(EXPORT_MEMORY, request.folder) as connection:
        connection.execute("SET threads = 1")  # several keep whole row groups in memory, to write them in order
        load_readers(connection, request.files)
        if request.source_format == "avro" and request.files:
            load_avro(connection)
        table = read_files(connection, request.files, request.source_format, request.columns, request.partition_by)
        columns = connection.execute(f"FROM {table} LIMIT 0").description or ()
        cells = (
            f"{_cast(quote_identifier(name), type, format)} AS {quote_identifier(name)}" for name, type, *_ in columns
        )
        connection.execute(
            f"COPY (FROM {table} SELECT {', '.join(cells)}) TO {quote_literal(stream)} ({OPTIONS[format]})"
        )


def describe(request: DescribeRequest) -> DescribedFiles:
    """Return columns and number of rows of files. Raises RejectedFile for files that are not of the format."""
    files, format = request.files, request.format
    if format == "parquet" and not any(file.startswith(WEB) for file in files):
        try:
            metadata = [pq.read_metadata(file) for file in files]
        except (pa.ArrowException, OSError) as error:
            raise RejectedFile("invalid-file", "A Parquet file of the output is damaged.") from error
        schema = pa.unify_schemas([each.schema.to_arrow_schema().remove_metadata() for each in metadata])
        return DescribedFiles(describe_columns(normalize_schema(schema)), sum(each.num_rows for each in metadata))
    try:
        with open_database(MEMORY, request.folder) as connection:
            load_readers(connection, files)
            if format == "json":
                return _describe_json(connection, files)
            table = read_files(connection, files, format)
            reader = connection.execute(f"FROM {table} LIMIT 0").to_arrow_reader(1)
            columns = describe_columns(normalize_schema(reader.schema))
            (rows,) = connection.execute(f"FROM {table} SELECT count(*)").fetchone() or (0,)
            return DescribedFiles(columns, rows)
    except (duckdb.Error, InvalidRow) as error:
        raise RejectedFile("invalid-file", f"The files are not {format}.") from error


def _describe_json(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> DescribedFiles:
    values, count = Values(), 0
    for rows in read_objects(connection, files):
        values.add(rows)
        count += len(rows)
    schema = pa.schema([pa.field(name, each.decide()) for name, each in values.fields.items()])
    return DescribedFiles(describe_columns(normalize_schema(schema)), count)


def read_files(
    connection: duckdb.DuckDBPyConnection,
    files: Sequence[str],
    format: str,
    columns: Sequence[tuple[str, str]] = (),
    partition_by: Sequence[str] = (),
) -> str:
    """Return the table expression of files of one format; without files, of these columns and no rows."""
    if not files or format in PARQUET_FORMATS:
        view = View("", files, columns, partition_by, format in TABLE_FORMATS)
        is_renamed = bool(files) and view.complete and needs_names(columns)
        return f"({view.combine([read_by_names(connection, view, files)]) if is_renamed else view.define([files])})"
    names = f"[{', '.join(map(quote_literal, files))}]"
    if format == "csv":
        options = "header = true, all_varchar = true, quote = '\"', escape = '\"', delim = ','"
        reader, arguments = "read_csv", f"{names}, {options}"
    elif format == "avro":
        reader, arguments = AVRO, names
    else:
        # binary is base64 in JSON; without types, DuckDB would make dates of texts such as 10-11-12
        types = {name: type.replace("BLOB", "VARCHAR") for name, type in columns if name not in partition_by}
        fields = ", ".join(f"{quote_literal(name)}: {quote_literal(type)}" for name, type in types.items())
        typed = f"columns = {{{fields}}}" if fields else "records = 'true', sample_size = -1"
        options = f"format = 'newline_delimited', {typed}"
        reader, arguments = "read_json", f"{names}, {options}"
    return build_reader_call(reader, arguments, files, columns, partition_by)


def _cast(column: str, type: Any, format: str) -> str:
    """Return the expression of a column: HUGEINT as Parquet has it, nested values as JSON in CSV, the rest as text."""
    if format == "parquet":
        return f"CAST({column} AS DECIMAL(38, 0))" if type.id == "hugeint" else column
    if format == "jsonl":
        return _write_json(column, type)
    if type.id in NESTED:
        return f"CAST(to_json({_write_json(column, type)}) AS VARCHAR)"
    return _write_text(column, type)


def _write_text(column: str, type: Any) -> str:
    """Return a value as text where DuckDB's own is another: times as ISO 8601, binary as base64."""
    match type.id:
        case "timestamp with time zone":
            return f"strftime({column}, '{ISO}Z')"
        case "timestamp" | "timestamp_s" | "timestamp_ms" | "timestamp_ns":
            return f"strftime({column}, '{ISO}')"
        case "blob":
            return f"to_base64({column})"
        case "float" | "double":
            infinity = f"if({column} > 0, 'Infinity', '-Infinity')"
            text = f"CAST({column} AS VARCHAR)"
            return f"CASE WHEN isnan({column}) THEN 'NaN' WHEN isinf({column}) THEN {infinity} ELSE {text} END"
        case _:
            return column


def _write_json(column: str, type: Any, depth: int = 0) -> str:
    """Return a value as JSON has it: the shortest digits of numbers, infinities and NaN as text. Decimals are exact."""
    item = f"item{depth}"
    match type.id:
        case "float":
            return _write_json_number(column, f"CAST(CAST({column} AS VARCHAR) AS DOUBLE)")
        case "double":
            return _write_json_number(column, column)
        case "list" | "array":
            written = _write_json(item, type.children[0][1], depth + 1)
            return column if written == item else f"list_transform({column}, lambda {item}: {written})"
        case "map":
            written = _write_json(f"{item}.value", type.children[1][1], depth + 1)
            if written == f"{item}.value":
                return column
            pairs = f"list_transform(map_entries({column}), lambda {item}: {{key: {item}.key, value: {written}}})"
            return f"CASE WHEN {column} IS NOT NULL THEN map_from_entries({pairs}) END"
        case "struct":
            fields = [(quote_identifier(name), part) for name, part in type.children]
            written = {name: _write_json(f"{column}.{name}", part, depth + 1) for name, part in fields}
            if all(value == f"{column}.{name}" for name, value in written.items()):
                return column
            packed = ", ".join(f"{name} := {value}" for name, value in written.items())
            return f"CASE WHEN {column} IS NOT NULL THEN struct_pack({packed}) END"
        case _:
            return _write_text(column, type)


def _write_json_number(value: str, number: str) -> str:
    return (
        f"CASE WHEN {value} IS NULL THEN NULL WHEN isfinite({value}) THEN to_json({number}) "
        f"WHEN isnan({value}) THEN JSON '\"NaN\"' WHEN {value} > 0 THEN JSON '\"Infinity\"' "
        f"ELSE JSON '\"-Infinity\"' END"
    )
