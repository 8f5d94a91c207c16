"""limit, dedup, sort, filter, store, reset and cache: work on whole tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from pipelines.errors import NeedsSpark, RunError
from pipelines.language.arguments import Arguments
from pipelines.language.columns import ENGINE_COLUMNS, JSON, UNKNOWN, Columns, add_engine_columns, quote_column
from pipelines.language.parameters import has_reference, parse_column_reference
from pipelines.planning.stage import Capabilities, Reset, TableStage, register_stage
from pipelines.spark.dataframes import materialize, number_rows
from pipelines.sql.expressions import Expression, check_expression, check_resolved, find_expression_columns
from pipelines.sql.predicates import build_condition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pipelines.contract.context import RunContext

register_stage("reset")(Reset)
PLACE = "__place"
_SORTED_LOCALLY = frozenset({JSON, UNKNOWN, "string", "bigint", "int", "double", "boolean", "date", "timestamp"})


@register_stage("limit")
class Limit(TableStage):
    """Keep the first rows in document order.

    Links that can only give later rows are not followed, unless a stage between them and the limit may drop rows: an
    inner join, a row transform, or another stage on whole tables. A page that fails, so that its row is left out, is
    replaced by the next link, unless a hundred fail one after another. On Spark, failed pages of an explore with a
    limit above 1,000 may leave fewer rows.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: limit, args: [2]}
"""

    positional = ("rows",)
    rows: int = Field(ge=0, le=2_147_483_647)

    def describe(self) -> str:
        return str(self.rows)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(max_rows=self.rows)

    def needs_spark(self, before: Columns) -> bool:
        return False

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        return rows.orderBy("_ordinal").limit(self.rows)

    def apply_locally(self, rows: pa.Table, context: RunContext) -> pa.Table:
        return rows.slice(0, self.rows)


@register_stage("dedup")
class Dedup(TableStage):
    """Keep the first of all rows that are equal in the given columns, or in all columns."""

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: dedup, args: [name]}
"""

    rest = "columns"
    names: tuple[str, ...] = Field((), alias="columns")

    def describe(self) -> str:
        return ", ".join(self.list_references())

    def list_references(self) -> tuple[str, ...]:
        return tuple(parse_column_reference(name) or name for name in self.names)

    def needs_spark(self, before: Columns) -> bool:
        return False

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        keys = self.list_references() or tuple(name for name in rows.columns if name not in ENGINE_COLUMNS)
        _check_comparable(keys, dict(rows.dtypes))
        quoted = map(quote_column, keys)
        # a window takes half the time of an aggregate over whole rows, and spills to disk
        place = F.row_number().over(Window.partitionBy(*quoted).orderBy("_ordinal"))
        return rows.withColumn(PLACE, place).where(F.col(PLACE) == 1).drop(PLACE)

    def apply_locally(self, rows: pa.Table, context: RunContext) -> pa.Table:
        from pipelines.columns.types import get_columns
        from pipelines.local.tables import drop_repeated_rows

        keys = self.list_references() or tuple(name for name in rows.column_names if name not in ENGINE_COLUMNS)
        _check_comparable(keys, dict(get_columns(rows.schema).types))
        return drop_repeated_rows(rows, keys)


def _check_comparable(keys: Iterable[str], types: Mapping[str, str]) -> None:
    """Raise RunError for a column of maps, which Spark does not compare."""
    for key in keys:
        if "map<" in types.get(key, ""):
            raise RunError(f"rows cannot be compared by the column '{key}': it has the type {types[key]}")


class SortKey(Arguments):
    """A column to sort by."""

    column: str = Field(min_length=1)
    desc: bool = Field(default=False, description="largest first")


@register_stage("sort")
class Sort(TableStage):
    """Sort the rows by columns, the first of them first; rows that are equal in all of them keep their order.

    `{column: price, desc: true}` puts the largest values first. Null is the smallest value and NaN the largest number;
    text is compared by its UTF-8 bytes, so `Z` comes before `a`. A limit after it keeps the first rows of this order.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: sort, args: [{column: name, desc: true}]}
  - {stage: limit, args: [2]}
"""

    rest = "columns"
    keys: tuple[SortKey, ...] = Field(alias="columns", min_length=1)

    @field_validator("keys", mode="before")
    @classmethod
    def _take_names(cls, keys: Any) -> Any:
        """Accept the name of a column for a map with it."""
        return (
            [{"column": each} if isinstance(each, str) else each for each in keys]
            if isinstance(keys, (list, tuple))
            else keys
        )

    def describe(self) -> str:
        return ", ".join(f"{name} desc" if descends else name for name, descends in self._list_keys())

    def _list_keys(self) -> list[tuple[str, bool]]:
        return [(parse_column_reference(key.column) or key.column, key.desc) for key in self.keys]

    def list_references(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self._list_keys())

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(sets_order=True)

    def needs_spark(self, before: Columns) -> bool:
        types = dict(add_engine_columns(before).types)
        found = (types.get(name, UNKNOWN if before.open else "") for name in self.list_references())
        return any(each not in _SORTED_LOCALLY and not each.startswith("decimal") for each in found)

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        from pyspark.sql import functions as F

        _check_comparable(self.list_references(), dict(rows.dtypes))
        columns = [(F.col(quote_column(name)), descends) for name, descends in self._list_keys()]
        keys = [each.desc_nulls_last() if descends else each.asc_nulls_first() for each, descends in columns]
        return number_rows(materialize(rows).orderBy(*keys, "_ordinal"))

    def apply_locally(self, rows: pa.Table, context: RunContext) -> pa.Table:
        from pipelines.columns.types import get_columns
        from pipelines.local.tables import sort_by_columns

        if self.needs_spark(get_columns(rows.schema)):
            raise NeedsSpark(f"only Spark sorts by the types of {self.describe()}")
        return sort_by_columns(rows, self._list_keys())


@register_stage("filter")
class Filter(TableStage):
    """Keep the rows for which an SQL expression over their columns is true."""

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: filter, args: ["name LIKE 'L%'"]}
"""

    positional = ("expression",)
    repeatable = True
    expression: Expression

    def describe(self) -> str:
        return self.expression

    def find_unknown_columns(self, before: Columns) -> Iterable[str]:
        return () if before.open else before.find_unknown_in_sql(find_expression_columns(self.expression))

    def needs_spark(self, before: Columns) -> bool:
        return has_reference(self.expression) or build_condition(self.expression, add_engine_columns(before)) is None

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        return rows.where(check_resolved(check_expression, self.expression))

    def apply_locally(self, rows: pa.Table, context: RunContext) -> pa.Table:
        from pipelines.columns.types import get_columns

        condition = build_condition(check_resolved(check_expression, self.expression), get_columns(rows.schema))
        if condition is None:
            raise NeedsSpark(f"only Spark evaluates '{self.expression}'")
        return rows.filter(condition(rows))


@register_stage("store")
class Store(TableStage):
    """Store the rows under a label for union_with; the rows pass on unchanged.

    A retry of an execution resumes after it, as after cache.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: store, args: [all]}
  - {stage: limit, args: [1]}
  - {stage: union_with, args: [all]}
"""

    positional = ("label",)
    persists = True
    label: str = Field(min_length=1)

    def describe(self) -> str:
        return self.label

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(stored_label=self.label, is_checkpoint=True)

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        context.stored[self.label] = rows
        return rows


@register_stage("cache")
class Cache(TableStage):
    """Persist the rows, so that later stages do not compute them again.

    In the service they are written to files, and a retry of an execution resumes after the last cache or store, without
    running the stages before it again.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: cache}
"""

    persists = True

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(is_checkpoint=True)

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        return rows
