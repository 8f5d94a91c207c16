"""Arrow record batches of the rows and links that enter a pass, and of those that it produces."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain, compress, repeat
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from pipelines.columns.types import format_type, parse_type
from pipelines.engine.definition import Pass
from pipelines.engine.output import Entry
from pipelines.errors import RunError
from pipelines.extract.rows import Link, Row
from pipelines.language.columns import ENGINE_COLUMNS, Columns
from pipelines.planning.stage import RowStage
from pipelines.transforms import values

_MAX_ROWS = 1024
_MAX_CHARACTERS = 8 * 1024 * 1024
_TEXTS = (pa.string(), pa.binary())
_TIMESTAMP = pa.timestamp("us", "UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC"))
LINK = "__link"
LEVEL = "__level"
OPEN = "__open"  # JSON of the values without a column, while columns or their types are not inferred yet
ROW = "__row"
WITHOUT_VALUES = r'^\{(?:"(?:[^"\\]|\\.)*": ?null(?:, ?)?)*\}$'  # of OPEN, in rows whose page failed


class RecordBuffer:
    """Rows as tuples in the order of `schema`: columns, engine columns, then those of links.

    `stages` are the stages of the pass by step key, to name the one that wrote a bad value.
    """

    def __init__(self, columns: Columns, schema: pa.Schema, stages: Sequence[tuple[str, object]]) -> None:
        self.schema = schema
        self.stages = stages
        of_json = columns.json_names
        self.names = tuple(name for name in columns if name not in of_json)
        self.engine = _select_engine_cells(self.names)
        self.known = {*self.names} if columns.open or of_json else None
        self.texts = [field.type in _TEXTS for field in schema]
        self.rows: list[tuple[object, ...]] = []

    def add(self, row: Row, *more: object) -> int:
        """Add a row and return the total length of its texts and binary values."""
        if self.known is not None:
            more = (_encode_other_values(row, self.known), *more)
        cells: tuple[Any, ...] = (*map(row.values.get, self.names), *self.engine(row), *more)
        self.rows.append(cells)
        try:
            return sum(map(len, filter(None, compress(cells, self.texts))))
        except (TypeError, ValueError):
            return 0  # a value of a wrong type: `take` raises the error

    def take(self) -> list[pa.Array]:
        """Return the rows since the last call as columns; raise RunError for a value of a wrong type."""
        cells = zip(*self.rows, strict=True) if self.rows else [()] * len(self.schema)
        arrays = [self._build_array(column, field) for column, field in zip(cells, self.schema, strict=True)]
        self.rows = []
        return arrays

    def _build_array(self, cells: Sequence[object], field: pa.Field) -> pa.Array:
        try:
            return pa.array(cells, field.type)
        except (TypeError, ValueError, OverflowError) as error:
            made_by = [key for key, stage in self.stages if _writes_column(stage, field.name)]
            where = f"{made_by[-1]}: " if made_by else ""
            type_ = format_type(field.type)
            raise RunError(f"{where}a value does not fit the column '{field.name}' ({type_}): {error}") from None


def _writes_column(stage: object, name: str) -> bool:
    return isinstance(stage, RowStage) and name in tuple(stage.infer_columns(Columns()))


def _select_engine_cells(names: Container[str]) -> Callable[[Row], tuple[object, ...]]:
    """Return a function for the values of the engine columns whose names are not among `names`."""
    own = [name not in names for name in ENGINE_COLUMNS]
    return Row.get_engine_cells if all(own) else lambda row: tuple(compress(row.get_engine_cells(), own))


def _encode_other_values(row: Row, known: set[str]) -> str:
    """Return the values without a column as JSON."""
    return values.dumps({name: value for name, value in row.values.items() if name not in known})


class RecordOutput:
    """The output of a pass: rows, with a link when the next pass fetches them, and links of explores by step key.

    With explores, a record is either a row or a link, both in their own struct columns.
    """

    def __init__(self, rows: RecordBuffer, links: Mapping[str, RecordBuffer]) -> None:
        self._rows = rows
        self._links = links
        self._count = 0
        self._characters = 0

    def add_row(self, row: Row, *link: str | None) -> None:
        self._count += 1
        self._characters += self._rows.add(row, *link)

    def add_link(self, key: str, row: Row, link: str, level: int) -> None:
        self._count += 1
        self._characters += self._links[key].add(row, link, level)

    def is_full(self) -> bool:
        return self._count >= _MAX_ROWS or self._characters >= _MAX_CHARACTERS

    def is_empty(self) -> bool:
        return self._count == 0

    def take(self) -> pa.RecordBatch:
        self._count = self._characters = 0
        if not self._links:
            return pa.RecordBatch.from_arrays(self._rows.take(), schema=self._rows.schema)
        structs = {name: _build_struct(table) for name, table in (*self._links.items(), (ROW, self._rows))}
        columns = {name: _build_column(name, structs) for name in structs}
        return pa.RecordBatch.from_pydict(columns)


def open_output(task: Pass) -> RecordOutput:
    """Return the output of a pass, which is empty."""
    columns = {key: each.columns for key, each in task.get_explorations().items()} | {ROW: task.columns}
    buffers = {name: RecordBuffer(columns[name], schema, task.stages) for name, schema in _build_schemas(task).items()}
    return RecordOutput(buffers.pop(ROW), buffers)


def build_pass_schema(task: Pass) -> pa.Schema:
    """Return the schema of a pass's output: of rows, or with explores one struct column for every kind of record."""
    schemas = _build_schemas(task)
    if len(schemas) == 1:
        return schemas[ROW]
    return pa.schema([(name, pa.struct(list(schema))) for name, schema in schemas.items()])


def _build_schemas(task: Pass) -> dict[str, pa.Schema]:
    """Return the schemas of the links of every explore, by step key, and that of the rows."""
    explores = {key: build_explore_schema(each.columns) for key, each in task.get_explorations().items()}
    return explores | {ROW: build_links_schema(task.columns) if task.links else build_rows_schema(task.columns)}


def _build_struct(buffer: RecordBuffer) -> pa.StructArray:
    return pa.StructArray.from_arrays(buffer.take(), fields=list(buffer.schema))


def _build_column(name: str, structs: Mapping[str, pa.StructArray]) -> pa.Array:
    """Return one struct column, null in records of the other kinds."""
    own = structs[name]
    parts = [struct if struct is own else pa.nulls(len(struct), own.type) for struct in structs.values()]
    return pa.concat_arrays(parts)


def read_entries(columns: Columns, batches: Iterable[pa.RecordBatch]) -> Iterator[Entry]:
    """Yield the rows from Spark with the links to fetch for them; None in place of a row marks a visited link."""
    own = {*ENGINE_COLUMNS} - {*columns}
    return chain.from_iterable(_convert_batch(batch, own) for batch in batches)


def _convert_batch(batch: pa.RecordBatch, own: set[str]) -> Iterator[Entry]:
    nothing: list[Any] = [None] * batch.num_rows
    cells = {name: _convert_column(batch.column(name)) for name in batch.schema.names}
    links, others = cells.pop(LINK, nothing), cells.pop(OPEN, None)
    engine = [cells.pop(name, nothing) if name in own else nothing for name in ENGINE_COLUMNS]
    rows = zip(*cells.values(), strict=True) if cells else repeat((), batch.num_rows)
    values: Iterable[dict[str, Any]] = map(dict, map(zip, repeat(tuple(cells)), rows))
    if others:
        values = map(_add_other_values, values, others)
    return zip(links, map(Row.from_spark, values, *engine), strict=True)


def _convert_column(column: pa.Array) -> list[Any]:
    if column.type != _TIMESTAMP:
        return column.to_pylist()
    since = column.cast(pa.int64()).to_pylist()  # five times as fast as to_pylist
    return [None if each is None else _EPOCH + timedelta(microseconds=each) for each in since]


def _add_other_values(row: dict[str, Any], others: str | None) -> dict[str, Any]:
    return row | values.loads(others) if others else row


def build_rows_schema(columns: Columns) -> pa.Schema:
    """Return the schema of rows: columns, then the engine's columns of other names; raise UnknownType."""
    engine = tuple((name, type_) for name, type_ in ENGINE_COLUMNS.items() if name not in tuple(columns))
    of_json = columns.json_names
    types = [(name, type_) for name, type_ in columns.types if name not in of_json]
    schema = pa.schema([pa.field(name, parse_type(type_)) for name, type_ in (*types, *engine)])
    return schema.append(pa.field(OPEN, pa.string())) if columns.open or of_json else schema


def build_links_schema(columns: Columns) -> pa.Schema:
    """Return the schema of rows that will be fetched: with the URL in LINK, null for a row without a link."""
    return build_rows_schema(columns).append(pa.field(LINK, pa.string()))


def build_seeds(links: Sequence[Link]) -> pa.Table:
    """Return a row for every first address."""
    columns = {
        LINK: pa.array([link.url for link in links], pa.string()),
        "_error": pa.array([link.error for link in links], pa.string()),
        "_ordinal": pa.array([[number] for number in range(len(links))], pa.list_(pa.int64())),
    }
    return pa.table(columns)


def build_explore_schema(columns: Columns) -> pa.Schema:
    """Return the schema of an explore's links, with the depth of each."""
    return build_links_schema(columns).append(pa.field(LEVEL, pa.int32()))
