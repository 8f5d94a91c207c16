"""sql_query: the result of a SELECT over the rows and other tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, ValidationInfo, field_validator

from pipelines.contract.request import make_table_key
from pipelines.errors import ArgumentError, RunError
from pipelines.language.columns import ENGINE_COLUMNS, UNKNOWN, Columns, list_own_columns
from pipelines.language.origins import OTHERS, Origin, SourceColumn
from pipelines.language.parameters import has_reference
from pipelines.planning.stage import Capabilities, TableStage, register_stage
from pipelines.spark.dataframes import create_rows, materialize, number_rows
from pipelines.sql.expressions import (
    ROWS,
    SqlDialect,
    add_selected,
    check_query,
    check_resolved,
    find_engine_columns,
    find_qualified_columns,
    find_query_columns,
    has_limit,
    has_order,
    has_repeated_reads,
    has_star,
    is_row_wise,
    is_select_all,
    list_selected_names,
    reads_rows,
    selects_ordinal,
)
from pipelines.sql.query_lineage import trace_query
from pipelines.stages.load import read_table
from pipelines.stages.tables import PLACE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.contract.context import RunContext
    from pipelines.local.arrow_query import SqlTable

_TABLE_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
TableName = Annotated[str, Field(min_length=1)]


@register_stage("sql_query")
class SqlQuery(TableStage):
    """Replace the rows by the result of a SELECT from the view `rows` and from other tables.

    `tables` names datasets of the own organization: `project.job`, a dataset's name (of the own project first), or a
    spindle:// path. They are read in the version that is current when the execution is accepted; `@4` at the end
    chooses version 4. The job's own table is among them; until something is published it is empty, with the columns of
    the rows. A pipeline may begin with the stage: then there is no `rows`. `spindle run` has no datasets: each
    table is a file or folder there, and a CSV file has a header and columns of text.

    With `dialect: trino` the query is Trino's SQL, as in `spindle query`: DuckDB runs it, without Spark where no other
    stage needs Spark, over tables that one process can join, in 1 GB of memory and files. Spark's own dialect, which
    is that of a stage without `dialect`, is for tables of any size.

    Engine columns are null afterwards unless the query selects them, by name or with `*`; a wget back to the pages of
    the rows needs `_requestedUrl`. An ORDER BY at the end of the query is the order of the rows from there on. Without
    it, one SELECT from `rows` that works row by row keeps their order, also for its LIMIT, and any query does that
    selects `_ordinal`, by name or with `*`. Groups, joins, windows and DISTINCT lose it: sort the rows before a limit.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: sql_query, args: ["SELECT name, count(*) AS pages FROM rows GROUP BY name"]}
  - stage: sql_query
    args:
      - SELECT r.*, m.* EXCEPT (name) FROM rows r LEFT JOIN more m USING (name)
      - {tables: {more: "${FOLDER}/products.parquet"}}
  - stage: sql_query
    args:
      - SELECT name, row_number() OVER (ORDER BY name) AS place FROM rows ORDER BY place
      - {dialect: trino}
"""

    positional = ("query",)
    takes_empty_tables = True
    tables: dict[str, TableName] = Field(default_factory=dict[str, TableName])
    dialect: SqlDialect = SqlDialect.SPARK
    query: str

    @field_validator("tables")
    @classmethod
    def _check_names(cls, tables: dict[str, str]) -> dict[str, str]:
        for name in tables:
            if not _TABLE_NAME.fullmatch(name):
                raise ArgumentError(f"'{name}' cannot name a table: use letters, digits and _, and no digit first")
            if name.casefold() == ROWS:
                raise ArgumentError("'rows' are the rows of the pipeline: give the table another name")
        if len({name.casefold() for name in tables}) < len(tables):
            raise ArgumentError("two names of tables differ only in case, which SQL ignores")
        return tables

    @field_validator("query")
    @classmethod
    def _check_query(cls, query: str, info: ValidationInfo) -> str:
        tables, dialect = info.data.get("tables"), info.data.get("dialect")  # None: they are not valid
        if tables is None or dialect is None or has_reference(query):
            return query
        return check_query(query, tables, dialect)

    def describe(self) -> str:
        named = ", ".join(f"{name} = {table}" for name, table in self.tables.items())
        return " ".join(self.query.split()) + (f" ({named})" if named else "")

    def list_tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.tables.values()))

    def list_table_columns(self) -> tuple[tuple[str, str], ...]:
        datasets = {name.casefold(): dataset for name, dataset in self.tables.items()}
        found = find_qualified_columns(self.query, self.dialect)
        return tuple((datasets[table], column) for table, column in found if table in datasets)

    def find_unknown_columns(self, before: Columns) -> Iterable[str]:
        return (
            () if before.open else before.find_unknown_in_sql(find_query_columns(self.query, self.tables, self.dialect))
        )

    def infer_columns(self, before: Columns) -> Columns:
        engine = find_engine_columns(self.query, self.dialect)
        known = {name: ENGINE_COLUMNS[name] for name in engine}
        if self.dialect is SqlDialect.SPARK or has_reference(self.query) or has_star(self.query, self.dialect):
            return Columns(tuple(known.items()), open=True)
        names = (name for name in self.list_selected_names() if name != "_ordinal")
        return Columns(tuple((name, known.get(name, UNKNOWN)) for name in names))

    def trace_columns(self, before: Columns) -> Mapping[str, Origin]:
        tables = tuple((name, make_table_key(table)) for name, table in self.tables.items())
        if has_reference(self.query):
            everything = Origin(sources=tuple(SourceColumn(key) for _, key in tables), is_unknown=True)
            return dict.fromkeys((*self.infer_columns(before), OTHERS), everything)
        return trace_query(self.query, self.dialect, None if before.open else (*before,), tables)

    def list_selected_names(self) -> tuple[str, ...]:
        return list_selected_names(self.query, self.dialect)

    def needs_spark(self, before: Columns) -> bool:
        return self.dialect is SqlDialect.SPARK

    @property
    def capabilities(self) -> Capabilities:
        is_open = has_reference(self.query)
        sets_order = is_open or has_order(self.query, self.dialect)
        return Capabilities(
            can_start=bool(self.tables) and (is_open or not reads_rows(self.query, self.dialect)),
            sets_order=sets_order,
            loses_order=not (
                sets_order or is_row_wise(self.query, self.dialect) or selects_ordinal(self.query, self.dialect)
            ),
            drops_engine_columns=not is_select_all(self.query, self.dialect),
        )

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        spark, query = rows.sparkSession, self._check_resolved()
        if self.dialect is SqlDialect.TRINO:
            return create_rows(spark, self._run(query, rows.toArrow(), self._open_tables(context, spark)))
        tables = {
            name: read_table(spark, context, table) if context.find_table(table).paths else _create_empty(rows)
            for name, table in self.tables.items()
        }
        if has_order(query):
            return number_rows(_select(materialize(rows) if reads_rows(query) else rows, query, tables))
        return _select_in_order(rows, query) if is_row_wise(query) else _select(rows, query, tables)

    def _check_resolved(self) -> str:
        return check_resolved(lambda text: check_query(text, self.tables, self.dialect), self.query)

    def prepare_locally(self, context: RunContext) -> None:
        context.prepared[context.step] = self._open_tables(context)

    def apply_locally(self, rows: pa.Table, context: RunContext) -> pa.Table:
        query = self._check_resolved()
        tables = context.prepared.get(context.step) or self._open_tables(context)
        return self._run(query, rows, tables)

    def _open_tables(self, context: RunContext, spark: SparkSession | None = None) -> dict[str, SqlTable | None]:
        """Return the tables by their names; None for one that is not published. Raise RunError, and NeedsSpark."""
        from pipelines.stages.sql_tables import open_table

        return {name.lower(): open_table(context, table, spark) for name, table in self.tables.items()}

    def _run(self, query: str, rows: pa.Table, tables: Mapping[str, SqlTable | None]) -> pa.Table:
        from pipelines.local.arrow_query import run_statement

        nothing = rows.select(list_own_columns(rows.column_names)).slice(0, 0)
        known = {name: nothing if table is None else table for name, table in tables.items()}
        return run_statement(query, {**known, ROWS: rows}, has_order(query, self.dialect))


def _create_empty(rows: DataFrame) -> DataFrame:
    """Return a table without rows that has the columns of these rows, without those of the engine."""
    from pyspark.sql.types import StructType

    own = set(list_own_columns(rows.columns))
    schema = StructType([field for field in rows.schema.fields if field.name in own])
    return rows.sparkSession.createDataFrame(rows.sparkSession.sparkContext.emptyRDD(), schema)


def _select(rows: DataFrame, query: str, tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return the result of a query over the view `rows` and other tables."""
    spark = rows.sparkSession
    if reads_rows(query):
        (materialize(rows) if has_repeated_reads(query, tables) else rows).createOrReplaceTempView(ROWS)
    try:
        for name, table in tables.items():
            table.createOrReplaceTempView(name)
        # only a query is valid in parentheses
        result = spark.sql(f"SELECT * FROM (\n{query}\n)")  # noqa: S608
    finally:  # the result has the plans of the views; a later query has other tables
        for name in tables:
            spark.catalog.dropTempView(name)
    names = Counter(name.casefold() for name in result.columns)
    if double := next((name for name in result.columns if names[name.casefold()] > 1), None):
        raise RunError(f"the result has more than one column '{double}': write AS and another name after one of them")
    return result


def _select_in_order(rows: DataFrame, query: str) -> DataFrame:
    """Return the result of a query that works row by row, in the order of the rows.

    The rows that explode makes of one are numbered, because their order is not that of their equal ordinals.
    """
    from pyspark.sql import functions as F

    ordered = materialize(rows).orderBy("_ordinal") if has_limit(query) else rows
    selected = _select(ordered, add_selected(query, f"_ordinal AS {PLACE}"), {})
    place = F.concat(F.col(PLACE), F.array(F.monotonically_increasing_id()))
    return selected.drop("_ordinal").withColumn("_ordinal", place).drop(PLACE)
