"""The next version of a history in memory: its current states compared with the rows of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from pipelines.columns.appending import fit_columns
from pipelines.columns.types import UnknownType, format_type, parse_type
from pipelines.contract.report import Changes, WrittenFiles
from pipelines.engine.history import States, Transition, describe_key_fault
from pipelines.errors import NeedsSpark, RunError
from pipelines.filesystem import open_filesystem
from pipelines.language.engines import LOADED_BYTES, LOADED_ROWS
from pipelines.language.formats import HISTORY_TYPES, TABLE_FORMATS, Mode
from pipelines.local.dataset_files import list_files
from pipelines.local.merging import fill_columns
from pipelines.local.output import write_rows
from pipelines.local.table_output import open_table, write_table
from pipelines.local.tables import (
    find_column,
    list_comparable_values,
    list_sort_keys,
    name_void,
    select_fitted,
    take_rows,
)
from pipelines.tables.commits import Write

pc: Any = pyarrow.compute  # its functions are made when it is imported
_NAMES = [*HISTORY_TYPES]


def read_states(transition: Transition) -> pa.Table | None:
    """Return the states of the history that the run continues, None for a new one; raise NeedsSpark."""
    target = transition.target
    if not transition.continues:
        return None
    try:
        schema = pa.schema([(name, parse_type(type_)) for name, type_ in target.columns])
    except UnknownType as error:
        raise NeedsSpark(f"only Spark reads the history: {error}") from error
    if target.snapshot is not None and target.location is not None:
        return _read_table(transition, schema)
    files = [*list_files(target.paths)]
    if sum(file.size for file in files) > LOADED_BYTES:
        raise NeedsSpark(f"only Spark reads the history: it has more than {LOADED_BYTES:,} bytes")
    parts, rows = [schema.empty_table()], 0
    for file in files:
        system, path = open_filesystem(file.path)
        with pq.ParquetFile(path, filesystem=system) as parquet:
            rows += parquet.metadata.num_rows
            if rows > LOADED_ROWS:
                raise NeedsSpark(f"only Spark reads the history: it has more than {LOADED_ROWS:,} rows")
            parts.append(fill_columns(parquet.read(), schema))
    return pa.concat_tables(parts)


def _read_table(transition: Transition, schema: pa.Schema) -> pa.Table:
    target = transition.target
    table = open_table(transition.output.format, target.location or "")
    with table.explain_failures():
        if (obstacle := table.find_obstacle()) is not None:
            raise NeedsSpark(f"only Spark reads the history: {obstacle}")
        rows, size = table.measure()
        if rows > LOADED_ROWS or size > LOADED_BYTES:
            raise NeedsSpark(
                f"only Spark reads the history: it has more than {LOADED_BYTES:,} bytes or {LOADED_ROWS:,} rows"
            )
        return fill_columns(table.read(target.snapshot), schema)


def write_history(
    rows: pa.Table,
    path: str,
    transition: Transition,
    earlier: pa.Table | None,
    author: str,
    since: int,
    aside: pa.Table | None = None,
) -> tuple[WrittenFiles | None, Changes]:
    """Write the states `earlier` and those of the run to a new folder `path`, or to the target's table.

    Nothing is written where there is no difference. `since` is the time in milliseconds at which the run began.

    Keys of rows that were set `aside` stay as they are. Raises RunError for keys that are there twice or without a
    value.
    """
    transition.check_columns(rows.column_names)
    named = name_void(rows)
    keys = [find_column(named.column_names, key) for key in transition.output.keys]
    _check_keys(named, keys)
    if earlier is None:
        version = _add_validity(named, transition.at)
        states = States(Changes(added=rows.num_rows), run_rows=rows.num_rows)
    else:
        version, states = _continue(rows, transition, earlier, aside)
    changes = transition.finish(states)
    if earlier is not None and not changes.any:
        return None, changes
    output, target = transition.output, transition.target
    if output.format in TABLE_FORMATS:
        write = Write(Mode.OVERWRITE, (), output.partition_by, author, since)
        written = write_table(version, output.format, target.location or path, write, target)
        return replace(written, rows=rows.num_rows), changes
    written = write_rows(version, path)
    return replace(written, rows=rows.num_rows, total_rows=written.rows), changes


def _check_keys(rows: pa.Table, keys: Sequence[str]) -> None:
    """Raise RunError naming the first key that is there twice or without a value, in the order of the keys."""
    values = _list_keys(rows, keys)
    if len(set(values)) == len(values) and not any(None in key for key in values):
        return
    count = dict[tuple[Any, ...], int]()
    for key in values:
        count[key] = count.get(key, 0) + 1
    ranks = [*zip(*(list_sort_keys(rows.column(key)) for key in keys), strict=True)]
    first = min((at for at, key in enumerate(values) if count[key] > 1 or None in key), key=ranks.__getitem__)
    raise RunError(describe_key_fault(keys, [rows.column(key)[first].as_py() for key in keys]))


def _list_keys(rows: pa.Table, keys: Sequence[str]) -> list[tuple[Any, ...]]:
    return [*zip(*(list_comparable_values(rows.column(key)) for key in keys), strict=True)]


@dataclass(slots=True)
class _NextStates:
    """Positions of the next states among the current ones, which the rows of the run follow, and which of them end."""

    positions: list[int]
    ends: list[bool]

    def add(self, position: int, ends: bool = False) -> None:
        self.positions.append(position)
        self.ends.append(ends)


def _continue(
    rows: pa.Table, transition: Transition, earlier: pa.Table, aside: pa.Table | None
) -> tuple[pa.Table, States]:
    """Return the next version and what the run has found: each state that changes is followed by its successor."""
    fitted_columns = [*fit_columns([(each.name, format_type(each.type)) for each in rows.schema], _describe(earlier))]
    rows = name_void(select_fitted(rows, fitted_columns))
    types = {each.name: each.type for each in earlier.drop_columns(_NAMES).schema} | {
        each.name: each.type for each in rows.schema
    }
    schema = pa.schema([*types.items(), *((name, earlier.schema.field(name).type) for name in _NAMES)])
    whole = fill_columns(earlier, schema)
    is_open = whole.column("valid_to").is_null()
    current, closed = whole.filter(is_open), whole.filter(pc.invert(is_open))
    keys = [find_column(earlier.column_names, key) for key in transition.output.keys]
    compared = transition.list_compared(rows.column_names)
    places = {key: at for at, key in enumerate(_list_keys(rows, keys))}
    kept_keys = set(_list_aside(aside, transition.output.keys, keys, schema))
    before, after = _list_keys(current, compared), _list_keys(rows, compared)

    states, added = _NextStates([], []), dict.fromkeys(range(rows.num_rows))
    changed = retired = kept = matched = 0
    for at, key in enumerate(_list_keys(current, keys)):
        place = None if None in key else places.get(key)
        if place is None:
            ends = transition.retires and (None in key or key not in kept_keys)
            retired, kept = retired + ends, kept + (not ends)
            states.add(at, ends)
            continue
        matched += 1
        added.pop(place, None)
        ends = bool(compared) and before[at] != after[place]
        states.add(at, ends)
        if ends:
            changed += 1
            states.add(current.num_rows + place)
    for place in added:
        states.add(current.num_rows + place)

    new = _add_validity(rows, transition.at)
    pool = take_rows(pa.concat_tables([current, fill_columns(new, schema)]), states.positions)
    validity = (
        pool.column("valid_from"),
        pa.array([transition.at if ends else None for ends in states.ends], schema.field("valid_to").type),
        pa.array([not ends for ends in states.ends], pa.bool_()),
    )
    version = pa.table([*pool.drop_columns(_NAMES).columns, *validity], schema=schema)
    times = [pc.max(current.column("valid_from")).as_py(), pc.max(closed.column("valid_to")).as_py()]
    return pa.concat_tables([version, closed]), States(
        Changes(len(added), changed, retired),
        kept,
        max((each for each in times if each is not None), default=None),
        rows.num_rows,
        repeated=len(added) + matched != rows.num_rows,
    )


def _describe(states: pa.Table) -> list[tuple[str, str]]:
    return [(each.name, format_type(each.type)) for each in states.drop_columns(_NAMES).schema]


def _list_aside(
    aside: pa.Table | None, names: Sequence[str], keys: Sequence[str], schema: pa.Schema
) -> list[tuple[Any, ...]]:
    """Return the keys of rows that were set aside, in the types of the history's `keys`."""
    if aside is None:
        return []
    columns = [aside.column(find_column(aside.column_names, name)) for name in names]
    return _list_keys(
        pa.table([each.cast(schema.field(key).type) for each, key in zip(columns, keys, strict=True)], names=[*keys]),
        keys,
    )


def _add_validity(rows: pa.Table, at: datetime) -> pa.Table:
    """Return the rows as states that begin at a time and last."""
    values = {"valid_from": at, "valid_to": None, "is_current": True}
    for name, type_ in HISTORY_TYPES.items():
        rows = rows.append_column(name, pa.array([values[name]] * rows.num_rows, parse_type(type_)))
    return rows
