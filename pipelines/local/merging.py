"""Merging of rows into those of a dataset, batch by batch: a new version has the earlier rows and these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.columns.appending import describe_equal_keys
from pipelines.errors import RunError
from pipelines.filesystem import list_data_files, open_filesystem


def read_batches(folders: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of the Parquet files in folders."""
    for file in (file for folder in folders for file in list_data_files(folder, recursive=True)):
        files, path = open_filesystem(file.path)
        with pq.ParquetFile(path, filesystem=files) as parquet:
            for batch in parquet.iter_batches():
                yield pa.Table.from_batches([batch])


def check_keys(rows: pa.Table, keys: Sequence[str]) -> set[tuple[Any, ...]]:
    """Return the keys of the rows; raise RunError when two rows have the same."""
    seen = set[tuple[Any, ...]]()
    for key in _list_keys(rows, keys) if keys else ():
        if key in seen:
            raise RunError(describe_equal_keys(keys, key))
        seen.add(key)
    return seen


def merge_rows(
    rows: pa.Table,
    keys: Sequence[str],
    stored: Iterable[pa.Table],
    earlier: pa.Schema,
    within: str | None = None,
    repeats: bool = False,
) -> tuple[pa.Schema, Iterator[pa.Table]]:
    """Return the schema and the parts of the rows that are stored without those of equal keys, followed by `rows`.

    Rows with a value of the column `within` that `rows` have are left out too. Columns that `rows` lack keep the values
    of the rows of equal keys. The stored rows get the types of the schema `earlier`. Without keys, all of them stay.
    A row `repeats` for each of several stored ones of its keys, or takes the place of all. Raises RunError when two of
    the rows have the same keys.
    """
    named = {name.casefold(): name for name in rows.column_names}
    keys, within = [named[key.casefold()] for key in keys], named[within.casefold()] if within else None
    seen = check_keys(rows, keys)
    schema = pa.schema([*earlier, *(field for field in rows.schema if field.name not in earlier.names)])
    covered = _list_covered(rows, within) if within else set[object]()
    return schema, _iter_parts(rows, keys, stored, schema, seen, (within, covered), repeats)


def _iter_parts(
    rows: pa.Table,
    keys: Sequence[str],
    stored: Iterable[pa.Table],
    schema: pa.Schema,
    replaced: set[tuple[Any, ...]],
    covered: tuple[str | None, set[object]],
    repeats: bool,
) -> Iterator[pa.Table]:
    lacking = [field.name for field in schema if keys and field.name not in rows.column_names]
    earlier: list[pa.Table] = []
    for rows_before in stored:
        part = fill_columns(rows_before, schema)
        stays = [key not in replaced for key in _list_keys(part, keys)]
        if within := covered[0]:
            values = _list_values(part, within)
            stays = [stay and value not in covered[1] for stay, value in zip(stays, values, strict=True)]
        if all(stays):
            yield part
            continue
        yield part.filter(pa.array(stays, pa.bool_()))
        if lacking or repeats:
            earlier.append(part.filter(pa.array([not each for each in stays], pa.bool_())))
    yield fill_columns(_keep_columns(rows, keys, pa.concat_tables(earlier), lacking) if earlier else rows, schema)


def _list_covered(rows: pa.Table, within: str) -> set[object]:
    """Return the values of the column, none of which is null."""
    return {value for value in _list_values(rows, within) if value is not None}


def _keep_columns(rows: pa.Table, keys: Sequence[str], earlier: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the rows with these columns of the earlier rows of equal keys, of which there may be several."""
    places = defaultdict[tuple[Any, ...], list[int | None]](list)
    for place, key in enumerate(_list_keys(earlier, keys)):
        places[key].append(place)
    pairs = [(at, place) for at, key in enumerate(_list_keys(rows, keys)) for place in places.get(key, [None])]
    updated = rows.take(pa.array([at for at, _ in pairs], pa.int64()))
    taken = pa.array([place for _, place in pairs], pa.int64())
    for name in names:
        updated = updated.append_column(name, earlier.column(name).take(taken))
    return updated


def fill_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with the columns of the schema; missing ones are null."""
    own = {*rows.column_names}
    columns = [
        rows.column(field.name) if field.name in own else pa.nulls(rows.num_rows, field.type) for field in schema
    ]
    return pa.table(columns, names=schema.names).cast(schema)


def _list_keys(rows: pa.Table, keys: Sequence[str]) -> list[tuple[Any, ...]]:
    return [*zip(*(_list_values(rows, key) for key in keys), strict=True)]


def _list_values(rows: pa.Table, name: str) -> list[Any]:
    """Return the values of a column, lists, objects and NaN as texts: these are equal where Spark's are."""
    column = rows.column(name)
    values = column.to_pylist()
    if pa.types.is_nested(column.type):
        return [None if value is None else repr(value) for value in values]
    if pa.types.is_floating(column.type):
        return ["NaN" if value != value else value for value in values]
    return values
