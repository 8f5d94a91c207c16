"""The files of a dataset in memory, with the types that Spark reads from them: Parquet, plain CSV and JSON lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.columns.types import get_columns
from pipelines.engine.json_rows import InvalidRow, Values, convert_values, read_object
from pipelines.errors import NeedsSpark, RunError
from pipelines.filesystem import StoredFile, has_file, is_local, list_data_files, open_filesystem, read_file
from pipelines.language.columns import Columns
from pipelines.language.engines import LOADED_BYTES, LOADED_ROWS
from pipelines.local.csv_files import RESERVED, read_csv

ChooseColumns = Callable[[Sequence[str]], Sequence[str]]
_PLAIN = re.compile(r"[\w./:-]*", re.ASCII)  # in addresses whose order does not depend on their spelling
_LINE_END = re.compile("\r\n|\r|\n")
_WHOLE = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_TIMES = (pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
_TYPES = frozenset((pa.string(), pa.binary(), pa.bool_(), pa.float32(), pa.float64(), *_WHOLE, *_TIMES))


def read_dataset(name: str, paths: Sequence[str], format_: str, choose: ChooseColumns) -> pa.Table:
    """Return the columns that `choose` names of those in the files; raise NeedsSpark for files that only Spark reads.

    `name` is how the pipeline writes the dataset.
    """
    reader = _READERS.get(format_)
    if reader is None:
        raise NeedsSpark(f"only Spark reads '{name}': it is {format_}")
    files = sorted(list_files(paths), key=lambda file: file.path)
    if not files:
        raise RunError(f"'{name}' has no files")
    if any("/" in file.name for file in files):
        raise NeedsSpark(f"only Spark reads '{name}': its files are in several folders")
    if sum(file.size for file in files) > LOADED_BYTES:
        raise NeedsSpark(f"only Spark reads '{name}': it has more than {LOADED_BYTES:,} bytes")
    tables = [reader(name, file, choose) for file in files]
    if len({table.schema for table in tables}) > 1:
        raise NeedsSpark(f"only Spark reads '{name}': its files have different columns")
    return pa.concat_tables(tables)


def read_rows(name: str, paths: Sequence[str], format_: str) -> tuple[pa.Table, Columns]:
    """Return all rows of a dataset, with their position in `_ordinal`; raise as `read_dataset` does."""
    rows = read_dataset(name, paths, format_, lambda columns: columns)
    own = {column.casefold() for column in rows.column_names}
    if not own:
        raise NeedsSpark(f"only Spark reads '{name}': it has no columns")
    if len(own) < rows.num_columns or own & RESERVED:
        raise NeedsSpark(f"only Spark reads '{name}': its columns have repeated or reserved names")
    if len(paths) > 1 and not all(map(_PLAIN.fullmatch, paths)):
        raise NeedsSpark(f"only Spark knows the order of the files at '{name}'")
    numbers = pa.array(range(rows.num_rows), pa.int64())
    ordinals = pa.ListArray.from_arrays(pa.array(range(rows.num_rows + 1), pa.int32()), numbers)
    return rows.append_column("_ordinal", ordinals), get_columns(rows.schema)


def list_files(paths: Sequence[str]) -> Iterator[StoredFile]:
    """Yield the data files at paths of files and folders."""
    for path in paths:
        if has_file(path):
            files, inner = open_filesystem(path)
            size: int | None = files.get_file_info(inner).size
            yield StoredFile(Path(path).name, path, size or 0)
        else:
            yield from list_data_files(path, recursive=True)


def _read_parquet(name: str, file: StoredFile, choose: ChooseColumns) -> pa.Table:
    files, path = open_filesystem(file.path)
    with files.open_input_file(path) as source:
        parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
        if parquet.metadata.num_rows > LOADED_ROWS:
            raise NeedsSpark(f"only Spark reads '{name}': it has more than {LOADED_ROWS:,} rows")
        table = parquet.read([*choose(parquet.schema_arrow.names)])
    return pa.table([_convert(name, column, table.column(column)) for column in table.column_names], table.column_names)


def _convert(name: str, column: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values in the type that Spark reads from Parquet."""
    type_ = values.type
    if pa.types.is_dictionary(type_):
        return _convert(name, column, values.cast(type_.value_type))
    if pa.types.is_large_string(type_):
        values = values.cast(pa.string())
    elif pa.types.is_timestamp(type_) and type_.unit in ("ms", "us"):
        values = values.cast(pa.timestamp("us", "UTC" if type_.tz else None))
    if values.type not in _TYPES and not pa.types.is_decimal128(values.type):
        raise NeedsSpark(f"only Spark reads '{name}': its column '{column}' is {type_}")
    return values


def _read_csv(name: str, file: StoredFile, choose: ChooseColumns) -> pa.Table:
    if not is_local(file.path):
        raise NeedsSpark(f"only Spark reads '{name}': it is in a bucket")
    rows, columns = read_csv(open_filesystem(file.path)[1], ",", header=True)
    return rows.select([*choose([*columns])])


def _read_json(name: str, file: StoredFile, choose: ChooseColumns) -> pa.Table:
    """Return the rows of a file with one object in each line."""
    if Path(file.name).suffix.lower() not in ("", ".json", ".jsonl", ".ndjson"):
        raise NeedsSpark(f"only Spark reads '{name}': by its name it is compressed")
    try:
        lines = _LINE_END.split((read_file(file.path) or b"").decode())
        rows = [read_object(line) for line in lines if line.strip()]
        values = Values()
        values.add(rows)
    except (UnicodeDecodeError, InvalidRow):
        raise NeedsSpark(f"only Spark reads '{name}': it is not one object in each line") from None
    if not values.has_own_names():
        raise NeedsSpark(f"only Spark reads '{name}': it has columns that differ only in case")
    columns: dict[str, pa.Array] = {}
    for column in choose(sorted(values.fields)):
        type_ = values.fields[column].decide()
        if pa.types.is_nested(type_) or values.fields[column].has_object or values.fields[column].has_list:
            raise NeedsSpark(f"only Spark reads '{name}': its column '{column}' has lists or objects")
        columns[column] = convert_values([row.get(column) for row in rows], type_)
    return pa.table(columns)


_READERS: dict[str, Callable[[str, StoredFile, ChooseColumns], pa.Table]] = {
    "parquet": _read_parquet,
    "csv": _read_csv,
    "json": _read_json,
}
