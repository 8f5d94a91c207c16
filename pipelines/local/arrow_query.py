"""The rows of a statement of Trino's over tables in memory and Parquet files, on DuckDB in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import pyarrow as pa

from pipelines.columns.types import UnknownType, format_type, parse_type
from pipelines.duckdb.failures import describe_failure
from pipelines.duckdb.file_types import FileTypes
from pipelines.duckdb.lockdown import Refused, check_statement, lock_down, open_database
from pipelines.duckdb.macros import find_macros
from pipelines.duckdb.storable_rows import select_storable
from pipelines.duckdb.views import View, quote_identifier
from pipelines.errors import RunError, SqlError
from pipelines.local.tables import sort_rows
from pipelines.sql.pipeline_query import translate_query
from pipelines.sql.scopes import Output
from pipelines.sql.type_names import convert_type
from pipelines.sql.types import find_column_type

MEMORY = "1GB"
MOST_BYTES = 2**30  # of a result in memory
_BATCH_ROWS = 131_072
_ARROW = "arrow"  # the name of a table in memory while it is copied
_FOREIGN = {  # DuckDB's types of Parquet files that Trino lacks, as Spark reads them
    **{"TIMESTAMP_S": "TIMESTAMP", "TIMESTAMP_MS": "TIMESTAMP", "TIMESTAMP_NS": "TIMESTAMP"},
    **{"UTINYINT": "SMALLINT", "USMALLINT": "INTEGER", "UINTEGER": "BIGINT", "UBIGINT": "DECIMAL(20, 0)"},
}
_LARGER = "write it in Spark's SQL, with dialect: spark, for tables of any size"
SqlTable = pa.Table | View


def run_statement(text: str, tables: Mapping[str, SqlTable], is_sorted: bool) -> pa.Table:
    """Return the rows of a statement over tables by their names in lower case; raise RunError.

    Their `_ordinal` is their position: in the order of the statement where it `is_sorted`, or else in that of the
    column `_ordinal` if the statement has selected it.
    """
    with TemporaryDirectory(prefix="spindle-sql-") as scratch:
        try:
            with closing(open_database(MEMORY, scratch)) as connection:
                rows = _run(connection, text, tables)
        except (SqlError, Refused) as error:
            raise RunError(str(error)) from None
        except (MemoryError, duckdb.OutOfMemoryException):
            raise RunError(f"the query needs more than {MEMORY} of memory; {_LARGER}") from None
        except duckdb.Error as error:
            files = [file for table in tables.values() if isinstance(table, View) for file in table.files]
            broken = [f" The file '{Path(file).name}' cannot be read." for file in files if file in str(error)]
            raise RunError(describe_failure(error, files)[0] + "".join(broken[:1])) from error
    if "_ordinal" in rows.column_names:
        rows = (rows if is_sorted else sort_rows(rows)).drop_columns(["_ordinal"])
    return rows.append_column("_ordinal", _number_rows(rows.num_rows))


def _run(connection: duckdb.DuckDBPyConnection, text: str, tables: Mapping[str, SqlTable]) -> pa.Table:
    file_types = FileTypes()
    views = list[View]()
    outputs: dict[str, Output] = {}
    for name, table in tables.items():
        if isinstance(table, View):
            described = file_types.define(connection, table)
            columns = connection.execute(f"DESCRIBE {described}").fetchall()
            casts = [(quote_identifier(each[0]), _FOREIGN[each[1]]) for each in columns if each[1] in _FOREIGN]
            if casts:
                cells = ", ".join(f"CAST({column} AS {type_}) AS {column}" for column, type_ in casts)
                columns = _copy(connection, name, f"SELECT * REPLACE ({cells}) FROM ({described})")  # noqa: S608 - quoted
            else:
                views.append(replace(table, name=name))
        elif not table.column_names:
            raise RunError(f"the table '{name}' has no columns")
        else:
            # a copy: DuckDB hands the filters of a view to Arrow, where NaN compares otherwise
            connection.register(_ARROW, table)
            columns = _copy(connection, name, f"SELECT * FROM {_ARROW}")  # noqa: S608 - a constant
            connection.unregister(_ARROW)
        outputs[name] = [
            (column.lower(), find_column_type(convert_type(type_, "duckdb", "trino"))) for column, type_, *_ in columns
        ]
    sql = translate_query(text, outputs)
    check_statement(sql, [View(name, (), ()) for name in tables])
    lock_down(connection, views, file_types, find_macros(sql))
    described, storable = select_storable(connection, sql)
    _check_names([name for name, _ in described])
    return _read(connection, storable)


def _copy(connection: duckdb.DuckDBPyConnection, name: str, query: str) -> list[tuple[str, ...]]:
    """Make a table of the rows of a query; return its columns with their types."""
    connection.execute(f"CREATE TABLE {quote_identifier(name)} AS {query}")
    return connection.execute(f"DESCRIBE {quote_identifier(name)}").fetchall()


def _check_names(names: Sequence[str]) -> None:
    folded = [name.casefold() for name in names]
    if double := next((name for name in names if folded.count(name.casefold()) > 1), None):
        raise RunError(f"the result has more than one column '{double}': write AS and another name after one of them")


def _read(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    """Return the rows of a query in types that Spark has too; raise RunError for others, and for too many rows."""
    reader = connection.execute(sql).to_arrow_reader(_BATCH_ROWS)
    schema = pa.schema([(field.name, _find_type(field)) for field in reader.schema])
    batches, size = list[pa.RecordBatch](), 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size > MOST_BYTES:
            raise RunError(f"the result has more than {MOST_BYTES // 2**20:,} MiB; {_LARGER}")
    batches = batches or [pa.RecordBatch.from_pylist([], reader.schema)]  # Spark's reader needs one
    return pa.Table.from_batches(batches).cast(schema)


def _find_type(field: pa.Field) -> pa.DataType:
    if pa.types.is_timestamp(field.type):
        return pa.timestamp("us", "UTC" if field.type.tz else None)
    if pa.types.is_time(field.type):
        return pa.string()
    if pa.types.is_unsigned_integer(field.type):
        return pa.int64()
    try:
        return parse_type(format_type(field.type))
    except UnknownType:
        message = f"the column '{field.name}' has a type that cannot be stored ({field.type}): CAST it to another"
        raise RunError(message) from None


def _number_rows(count: int) -> pa.Array:
    """Return the positions of rows as their ordinals."""
    return pa.ListArray.from_arrays(np.arange(count + 1, dtype="int32"), pa.array(np.arange(count, dtype="int64")))
