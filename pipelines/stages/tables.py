"""Stages that work on whole tables: limit, dedup, filter, store, reset, cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pydantic import Field

from pipelines.errors import RunError
from pipelines.language.columns import ENGINE_COLUMNS, Columns
from pipelines.language.expressions import (
    Expression,
    Query,
    check_expression,
    check_query,
    find_engine_columns,
    find_expression_columns,
    find_query_columns,
    has_repeated_reads,
    is_select_all,
)
from pipelines.language.parameters import parse_column_reference
from pipelines.planning.stage import Reset, TableStage, register_stage
from pipelines.stages.dataframes import materialize, quote_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipelines.planning.context import RunContext

register_stage("reset")(Reset)
PLACE = "__place"


def _resolved(check: Callable[[str], str], text: str) -> str:
    """The SQL as it will run: a parameter's value may look like a parameter that is still to come."""
    try:
        return check(text)
    except ValueError as error:
        raise RunError(str(error)) from None


@register_stage("limit")
class Limit(TableStage):
    """Keeps the first rows in document order."""

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: limit, args: [2]}
"""

    positional = ("rows",)
    rows: int = Field(ge=0, le=2_147_483_647)

    def describe(self) -> str:
        return str(self.rows)

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        return rows.orderBy("_ordinal").limit(self.rows)


@register_stage("dedup")
class Dedup(TableStage):
    """Keeps the first row, in document order, of those that are equal in the named columns, or in all."""

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

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        keys = self.list_references() or tuple(name for name in rows.columns if name not in ENGINE_COLUMNS)
        quoted = map(quote_column, keys)
        # sorting finds the first for half of what an aggregate over whole rows costs, and spills where memory ends
        place = F.row_number().over(Window.partitionBy(*quoted).orderBy("_ordinal"))
        return rows.withColumn(PLACE, place).where(F.col(PLACE) == 1).drop(PLACE)


@register_stage("filter")
class Filter(TableStage):
    """Keeps the rows for which an SQL expression over their columns is true."""

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: filter, args: ["name LIKE 'L%'"]}
"""

    positional = ("expression",)
    expression: Expression

    def describe(self) -> str:
        return self.expression

    def find_unknown_columns(self, before: Columns) -> Iterable[str]:
        return () if before.open else before.find_unknown_in_sql(find_expression_columns(self.expression))

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        return rows.where(_resolved(check_expression, self.expression))


@register_stage("sql_query")
class SqlQuery(TableStage):
    """Replaces the rows by the result of a SELECT over them; they are the view `rows`.

    The engine's columns can be selected; those that the query neither names nor takes in by `*` are null after it, also
    the `_requestedUrl` that a wget would go back by. With `_ordinal`, which `*` takes in too, rows keep their place in
    document order whatever ORDER BY says, which then counts for a LIMIT alone; without it they stand as they are
    ordered.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: sql_query, args: ["SELECT name, count(*) AS pages FROM rows GROUP BY name"]}
"""

    positional = ("query",)
    query: Query

    def describe(self) -> str:
        return " ".join(self.query.split())

    def find_unknown_columns(self, before: Columns) -> Iterable[str]:
        return () if before.open else before.find_unknown_in_sql(find_query_columns(self.query))

    def infer_columns(self, before: Columns) -> Columns:
        return Columns(tuple((name, ENGINE_COLUMNS[name]) for name in find_engine_columns(self.query)), open=True)

    @property
    def drops_engine_columns(self) -> bool:
        return not is_select_all(self.query)

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        query = _resolved(check_query, self.query)
        (materialize(rows) if has_repeated_reads(query) else rows).createOrReplaceTempView("rows")
        # nothing but a query can stand in parentheses
        return rows.sparkSession.sql(f"SELECT * FROM (\n{query}\n)")  # noqa: S608


@register_stage("store")
class Store(TableStage):
    """Remembers the rows under a label, for union_with, and goes on with them."""

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
    def stored_label(self) -> str | None:
        return self.label

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        context.stored[self.label] = rows
        return rows


@register_stage("cache")
class Cache(TableStage):
    """Keeps the rows at hand, so that nothing after this makes them again."""

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: cache}
"""

    persists = True

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        return rows
