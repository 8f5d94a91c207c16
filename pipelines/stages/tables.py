"""limit, dedup, filter, sql_query, store, reset and cache: work on whole tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pydantic import Field

from pipelines.errors import RunError
from pipelines.language.columns import ENGINE_COLUMNS, Columns, quote_column
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
from pipelines.stages.dataframes import materialize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipelines.planning.context import RunContext

register_stage("reset")(Reset)
PLACE = "__place"


def _check_resolved(check: Callable[[str], str], text: str) -> str:
    """Check the SQL again before it runs: the value of a parameter may look like an open parameter."""
    try:
        return check(text)
    except ValueError as error:
        raise RunError(str(error)) from None


@register_stage("limit")
class Limit(TableStage):
    """Keep the first rows in document order.

    Links that can only give later rows are not followed, unless a stage between them and the limit may drop rows: an
    inner join, a row transform, or another stage on whole tables.
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
    def max_rows(self) -> int | None:
        return self.rows

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        return rows.orderBy("_ordinal").limit(self.rows)


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

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        keys = self.list_references() or tuple(name for name in rows.columns if name not in ENGINE_COLUMNS)
        quoted = map(quote_column, keys)
        # a window takes half the time of an aggregate over whole rows, and spills to disk
        place = F.row_number().over(Window.partitionBy(*quoted).orderBy("_ordinal"))
        return rows.withColumn(PLACE, place).where(F.col(PLACE) == 1).drop(PLACE)


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

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        return rows.where(_check_resolved(check_expression, self.expression))


@register_stage("sql_query")
class SqlQuery(TableStage):
    """Replace the rows by the result of a SELECT from the view `rows`.

    Engine columns are null afterwards unless the query selects them, by name or with `*`; a wget back to the pages of
    the rows needs `_requestedUrl`. If the query selects `_ordinal`, by name or with `*`, rows keep their document
    order, and ORDER BY affects only a LIMIT. Otherwise ORDER BY sets the document order.
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
        query = _check_resolved(check_query, self.query)
        (materialize(rows) if has_repeated_reads(query) else rows).createOrReplaceTempView("rows")
        # only a query is valid in parentheses
        return rows.sparkSession.sql(f"SELECT * FROM (\n{query}\n)")  # noqa: S608


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
    is_checkpoint = True
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
    is_checkpoint = True

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        return rows
