"""Rows of a pass → Arrow record batches of the schema that Spark was told."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from itertools import compress
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type

from pipelines.errors import RunError
from pipelines.extract.rows import Row
from pipelines.language.columns import ENGINE_COLUMNS, Columns
from pipelines.planning.stage import RowStage
from pipelines.spark.schema import ROW
from pipelines.transforms import values

_MAX_ROWS = 1024
_MAX_CHARACTERS = 8 * 1024 * 1024
_TEXTS = (pa.string(), pa.binary())


class Table:
    """Rows as tuples in the order of `schema`: columns, engine columns, then what only links have.

    `stages` have made the rows, each with its step's key.
    """

    def __init__(self, columns: Columns, schema: pa.Schema, stages: Sequence[tuple[str, object]]) -> None:
        self.schema = schema
        self.stages = stages
        self.names = tuple(columns)
        self.engine = _engine_cells(self.names)
        self.known = {*self.names} if columns.open else None
        self.texts = [field.type in _TEXTS for field in schema]
        self.rows: list[tuple[object, ...]] = []

    def add(self, row: Row, *more: object) -> int:
        """Adds a row and returns how many characters or bytes its texts hold."""
        if self.known is not None:
            more = (_others(row, self.known), *more)
        cells: tuple[Any, ...] = (*map(row.values.get, self.names), *self.engine(row), *more)
        self.rows.append(cells)
        try:
            return sum(map(len, filter(None, compress(cells, self.texts))))
        except (TypeError, ValueError):
            return 0  # not all texts: `take` tells

    def take(self) -> list[pa.Array]:
        """The rows since the last call, column by column; raises RunError for a value of another type."""
        cells = zip(*self.rows, strict=True) if self.rows else [()] * len(self.schema)
        arrays = [self._array(column, field) for column, field in zip(cells, self.schema, strict=True)]
        self.rows = []
        return arrays

    def _array(self, cells: Sequence[object], field: pa.Field) -> pa.Array:
        try:
            return pa.array(cells, field.type)
        except (TypeError, ValueError, OverflowError) as error:
            made_by = [key for key, stage in self.stages if _writes(stage, field.name)]
            where = f"{made_by[-1]}: " if made_by else ""
            type_ = from_arrow_type(field.type).simpleString()
            raise RunError(f"{where}a value does not fit the column '{field.name}' ({type_}): {error}") from None


def _writes(stage: object, name: str) -> bool:
    return isinstance(stage, RowStage) and name in tuple(stage.infer_columns(Columns()))


def _engine_cells(names: Container[str]) -> Callable[[Row], tuple[object, ...]]:
    """What gives the values of the engine columns that no stage wrote: their names are not among `names`."""
    own = [name not in names for name in ENGINE_COLUMNS]
    return Row.get_engine_cells if all(own) else lambda row: tuple(compress(row.get_engine_cells(), own))


def _others(row: Row, known: set[str]) -> str:
    """The values that have no column yet, as JSON."""
    return values.dumps({name: value for name, value in row.values.items() if name not in known})


class Output:
    """What a pass writes: finished rows, or rows with a link; and for each explore, by its step key, its links.

    With explores a record is either a row or a link, each in its own struct column, so that one pass gives both.
    """

    def __init__(self, rows: Table, links: Mapping[str, Table]) -> None:
        self._rows = rows
        self._links = links
        self._count = 0
        self._characters = 0

    def row(self, row: Row, *link: str | None) -> None:
        self._count += 1
        self._characters += self._rows.add(row, *link)

    def link(self, key: str, row: Row, link: str, level: int) -> None:
        self._count += 1
        self._characters += self._links[key].add(row, link, level)

    def full(self) -> bool:
        return self._count >= _MAX_ROWS or self._characters >= _MAX_CHARACTERS

    def empty(self) -> bool:
        return self._count == 0

    def take(self) -> pa.RecordBatch:
        self._count = self._characters = 0
        if not self._links:
            return pa.RecordBatch.from_arrays(self._rows.take(), schema=self._rows.schema)
        structs = {name: _struct(table) for name, table in (*self._links.items(), (ROW, self._rows))}
        columns = {name: _alone(name, structs) for name in structs}
        return pa.RecordBatch.from_pydict(columns)


def _struct(table: Table) -> pa.StructArray:
    return pa.StructArray.from_arrays(table.take(), fields=list(table.schema))


def _alone(name: str, structs: Mapping[str, pa.StructArray]) -> pa.Array:
    """One struct column, null in the records that belong to the others."""
    own = structs[name]
    parts = [struct if struct is own else pa.nulls(len(struct), own.type) for struct in structs.values()]
    return pa.concat_arrays(parts)
