"""lookup: add columns of a dataset to the rows, by a key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Self, TypeVar

from pydantic import Field, field_validator, model_validator

from pipelines.contract.context import unescape_pattern
from pipelines.contract.request import make_table_key
from pipelines.errors import ArgumentError, RunError
from pipelines.language.columns import (
    UNKNOWN,
    Columns,
    check_column_name,
    check_not_reserved,
    quote_column,
    quote_fields,
)
from pipelines.language.names import suggest
from pipelines.language.origins import Origin, SourceColumn
from pipelines.language.parameters import parse_column_reference
from pipelines.planning.planner import describe_taken_column
from pipelines.planning.stage import TableStage, register_stage
from pipelines.stages.load import read_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pipelines.contract.context import RunContext
    from pipelines.local.lookup_table import LookupTable

Type = TypeVar("Type")
_RANK = "__rank"
_MOST_SHOWN = 200  # characters of a key in an error
_MOST_NAMED = 50  # columns in an error


@dataclass(frozen=True, slots=True)
class _Matched:
    """The keys and the values of a lookup as the dataset spells them."""

    keys: Sequence[str]
    values: Sequence[str]

    @property
    def all(self) -> list[str]:
        return list(dict.fromkeys((*self.keys, *self.values)))


@dataclass(frozen=True, slots=True)
class _KeyPair:
    """A column of the rows, the column of the dataset that it is equal to, and the type in which they are compared."""

    name: str
    key: str
    type: str


@register_stage("lookup")
class Lookup(TableStage):
    """Add columns of a dataset to each row, found by a key; rows without a match have nulls there.

    `on` names, for each column of the rows, the column of the dataset that it is equal to. The rows stay as many as
    they are, and in their order: a key that two rows of the dataset have is an error. A null finds nothing. The two
    columns of a key must be of the same type, or both numbers.

    The dataset is `project.job`, a dataset's name or a `spindle://` path, with `@` and a number at its end for one of
    its versions. The job's own table is empty until something is published. `spindle run` and `try` read a file or
    folder of Parquet, CSV, JSON lines, Delta or Iceberg instead. A `prefix` goes before the names of the new columns,
    where the rows have columns of these names already.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: lookup, args: ["${FOLDER}/prices.csv", {on: {name: product}, columns: [price]}]}
"""

    positional = ("dataset",)
    keeps_rows = True
    takes_empty_tables = True
    dataset: str = Field(min_length=1)
    on: Mapping[str, str] = Field(min_length=1, description="columns of the rows, each with its column of the dataset")
    names: tuple[str, ...] = Field(alias="columns", min_length=1)
    prefix: str = ""

    @field_validator("dataset")
    @classmethod
    def _check_dataset(cls, dataset: str) -> str:
        scheme, separator, _ = dataset.partition("://")
        if separator and scheme != "spindle" and "${" not in scheme:
            raise ArgumentError(
                f"'{dataset}' is neither a dataset nor a local file: a job with a load stage makes a dataset of it"
            )
        return dataset

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        added = self._name_columns()
        for name in added:
            check_column_name(name)
            check_not_reserved(name)
        if len({name.casefold() for name in added}) < len(added):
            raise ArgumentError("'columns' names a column twice", "duplicate-column")
        return self

    def _name_columns(self) -> tuple[str, ...]:
        return tuple(self.prefix + name for name in self.names)

    def describe(self) -> str:
        keys = (name if name == key else f"{name} = {key}" for name, key in self._list_keys())
        return f"{self.dataset} by {', '.join(keys)}"

    def _list_keys(self) -> list[tuple[str, str]]:
        return [(parse_column_reference(name) or name, key) for name, key in self.on.items()]

    def list_tables(self) -> tuple[str, ...]:
        return (self.dataset,)

    def list_table_columns(self) -> tuple[tuple[str, str], ...]:
        return tuple((self.dataset, name) for name in (*self.on.values(), *self.names))

    def list_references(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self._list_keys())

    def find_taken_columns(self, before: Columns) -> Sequence[str]:
        return before.find_taken(self._name_columns())

    def infer_columns(self, before: Columns) -> Columns:
        taken = self.find_taken_columns(before)
        return before.with_columns(tuple((name, UNKNOWN) for name in self._name_columns() if name not in taken))

    def trace_columns(self, before: Columns) -> Mapping[str, Origin]:
        dataset = make_table_key(self.dataset)
        found = zip(self._name_columns(), self.names, strict=True)
        return {name: Origin(sources=(SourceColumn(dataset, column),)) for name, column in found}

    def needs_spark(self, before: Columns) -> bool:
        return False

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        from pyspark.sql import functions as F

        self._check_taken(rows.columns)
        own = [F.col(quote_column(name)) for name in rows.columns]
        if not context.find_table(self.dataset).paths:
            types = self._list_own_types(dict(rows.dtypes), "string")
            named = zip(self._name_columns(), types, strict=True)
            nothing = [F.lit(None).cast(quote_fields(type_)).alias(name) for name, type_ in named]
            return rows.select(*own, *nothing)
        dataset = read_table(rows.sparkSession, context, self.dataset)
        matched, pairs = self._match_names(dataset.columns), self._pair_keys(dict(rows.dtypes), dict(dataset.dtypes))
        keys = [F.col(quote_column(pair.key)).cast(pair.type).alias(f"__key{at}") for at, pair in enumerate(pairs)]
        values = [F.col(quote_column(name)).alias(f"__value{at}") for at, name in enumerate(matched.values)]
        single = self._check_single(dataset.select(*keys, *values), [pair.key for pair in pairs], context.step)
        equal = [F.col(quote_column(pair.name)).cast(pair.type) == F.col(f"__key{at}") for at, pair in enumerate(pairs)]
        added = [F.col(f"__value{at}").alias(name) for at, name in enumerate(self._name_columns())]
        return rows.join(single, equal, "left").select(*own, *added)

    def _pair_keys(self, types: Mapping[str, str], dataset_types: Mapping[str, str]) -> list[_KeyPair]:
        from pipelines.engine.key_types import find_key_type
        from pipelines.local.tables import find_column

        names = [find_column([*types], name) for name in self.list_references()]
        keys = self._match_names([*dataset_types]).keys
        return [
            _KeyPair(name, key, find_key_type(name, types[name], key, dataset_types[key], self.dataset))
            for name, key in zip(names, keys, strict=True)
        ]

    def _check_single(self, dataset: DataFrame, names: Sequence[str], step: str) -> DataFrame:
        """Return the rows with a key; those after the first with it end the run, which names the step and the key."""
        from pyspark.sql import Column, Window
        from pyspark.sql import functions as F

        from pipelines.engine.key_types import describe_repeated_key

        keys = [F.col(f"__key{at}") for at in range(len(names))]
        before, *between, after = describe_repeated_key(self.dataset, names, ["\0"] * len(names)).split("\0")
        texts = [F.substring(key.cast("string"), 1, _MOST_SHOWN) for key in keys]
        parts = [part for text, end in zip(texts, [*between, after], strict=True) for part in (text, F.lit(end))]
        repeated = F.raise_error(F.concat(F.lit(f"{step}: {before}"), *parts)).cast("boolean")
        place = F.row_number().over(Window.partitionBy(*keys).orderBy(keys[0]))
        known = reduce(Column.__and__, (key.isNotNull() for key in keys))
        ranked = dataset.where(known).withColumn(_RANK, place)
        return ranked.where(F.when(F.col(_RANK) == 1, True).otherwise(repeated)).drop(_RANK)

    def prepare_locally(self, context: RunContext) -> None:
        if context.find_table(self.dataset).paths:
            context.prepared[context.step] = self._read(context)

    def apply_locally(self, rows: pa.Table, context: RunContext) -> pa.Table:
        import pyarrow as pa

        from pipelines.local.tables import find_column

        self._check_taken(rows.column_names)
        if not context.find_table(self.dataset).paths:
            types = self._list_own_types(dict(zip(rows.column_names, rows.schema.types, strict=True)), pa.string())
            for name, type_ in zip(self._name_columns(), types, strict=True):
                rows = rows.append_column(name, pa.nulls(rows.num_rows, type_))
            return rows
        table: LookupTable = context.prepared.get(context.step) or self._read(context)
        names = [find_column(rows.column_names, name) for name in self.list_references()]
        found = table.find_rows(names, [rows.column(name) for name in names])
        for name, new in zip(self._match_names(found.column_names).values, self._name_columns(), strict=True):
            rows = rows.append_column(new, found.column(name))
        return rows

    def _read(self, context: RunContext) -> LookupTable:
        """Return the dataset in memory; raise RunError, and NeedsSpark for files that only Spark reads."""
        from pipelines.local.dataset_files import read_dataset
        from pipelines.local.lookup_table import LookupTable

        files = context.find_table(self.dataset)
        paths = [*map(unescape_pattern, files.paths)]
        read = read_dataset(self.dataset, paths, files.format or "", lambda names: self._match_names(names).all)
        return LookupTable(self.dataset, read, self._match_names(read.column_names).keys)

    def _match_names(self, names: Sequence[str]) -> _Matched:
        """Return the columns of the dataset that are meant, whose case SQL ignores; raise RunError."""
        spellings = {name.casefold(): name for name in reversed(names)}

        def find(name: str) -> str:
            found = name if name in names else spellings.get(name.casefold())
            if found is None:
                raise RunError(f"'{self.dataset}' has no column '{name}'; {_suggest_columns(name, names)}")
            return found

        return _Matched([find(key) for _, key in self._list_keys()], [find(name) for name in self.names])

    def _list_own_types(self, types: Mapping[str, Type], unknown: Type) -> list[Type]:
        """Return the types of the new columns while the job's own table is not published: those of the rows."""
        folded = {name.casefold(): type_ for name, type_ in types.items()}
        return [folded.get(name.casefold(), unknown) for name in self.names]

    def _check_taken(self, names: Iterable[str]) -> None:
        """Raise RunError for a column that the rows have already."""
        if taken := self.find_taken_columns(Columns(tuple((name, "") for name in names))):
            raise RunError(describe_taken_column(taken[0]))


def _suggest_columns(name: str, known: Sequence[str]) -> str:
    if similar := suggest(name, known):
        return f"did you mean {' or '.join(similar)}?"
    return f"it has {', '.join(known[:_MOST_NAMED]) or 'no columns'}"
