"""load_union, unionByName and union_with: combine the rows of several sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from pipelines.errors import ArgumentError, RunError
from pipelines.language.arguments import Arguments, describe_faults
from pipelines.language.columns import ENGINE_COLUMNS, Columns
from pipelines.language.names import validate_choice
from pipelines.language.origins import OTHERS, Origin
from pipelines.planning.stage import Capabilities, Source, Stage, TableStage, register_stage, trace_sources
from pipelines.spark.dataframes import materialize
from pipelines.stages.load import READERS, FileSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.contract.context import RunContext

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


class UnionSource(Arguments):
    """One source of a union; `options` are the other arguments of the format's load stage."""

    format: Annotated[str, validate_choice("format", READERS)] = "csv"
    path: str = Field(min_length=1)
    options: dict[str, Any] = Field(default_factory=dict[str, Any])

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        try:
            self.build_reader()
        except ValidationError as error:
            faults = describe_faults(READERS[self.format], error)
            raise ArgumentError(", ".join(each.message for each in faults), faults[0].code) from None
        return self

    def list_libraries(self) -> tuple[str, ...]:
        return READERS[self.format].model_construct(path=self.path).list_libraries()

    def list_credentials(self) -> tuple[tuple[str, str], ...]:
        name = self.options.get("credential")
        return ((self.path, str(name)),) if name else ()

    def build_reader(self) -> FileSource:
        return READERS[self.format].model_validate({**self.options, "path": self.path})


class _StageOfSources(Stage):
    rest = "sources"
    sources: tuple[UnionSource, ...] = Field(min_length=1)

    def describe(self) -> str:
        return ", ".join(self.list_inputs())

    def list_inputs(self) -> tuple[str, ...]:
        return tuple(source.path for source in self.sources)

    def list_libraries(self) -> tuple[str, ...]:
        return tuple(library for source in self.sources for library in source.list_libraries())

    def list_credentials(self) -> tuple[tuple[str, str], ...]:
        return tuple(named for source in self.sources for named in source.list_credentials())


@register_stage("load_union")
class LoadUnion(_StageOfSources, Source):
    """Replace the rows by those of several sources, one after the other, matching columns by name.

    A source has a `format` (csv, json, parquet, avro, xml, delta or iceberg), a `path`, and `options`, the other
    arguments of that format's load stage. A column that a source lacks is null in its rows. A column must have the same
    type, or a numeric type, in all sources.
    """

    example = """
pipeline:
  - stage: load_union
    args:
      - {format: csv, path: "${FOLDER}/products.csv", options: {header: true}}
      - {format: json, path: "${FOLDER}/products.json"}
"""

    def infer_columns(self, before: Columns) -> Columns:
        return Columns(open=True)

    def load(self, spark: SparkSession, context: RunContext) -> DataFrame:
        return union_tables([(source.path, source.build_reader().load(spark, context)) for source in self.sources])


@register_stage("unionByName")
class UnionByName(_StageOfSources, TableStage):
    """Append the rows of several sources, matching columns by name; the sources are those of load_union."""

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: unionByName, args: [{format: parquet, path: "${FOLDER}/products.parquet"}]}
"""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(can_start=True)

    def infer_columns(self, before: Columns) -> Columns:
        return Columns(before.types, open=True)

    def trace_columns(self, before: Columns) -> Mapping[str, Origin]:
        return trace_sources((*before, OTHERS), self.list_sources(), OTHERS)

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        more = [(source.path, source.build_reader().load(rows.sparkSession, context)) for source in self.sources]
        return union_tables([("the rows so far", rows), *more])


@register_stage("union_with")
class UnionWith(TableStage):
    """Append the rows stored under the labels, matching columns by name; missing columns are null.

    A column must have the same type, or a numeric type, on all sides.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: store, args: [old]}
  - {stage: reset}
  - {stage: wget, args: ["${SHOP}/"]}
  - {stage: flatSelect, args: [li.product, {selector: a, as: name}]}
  - {stage: union_with, args: [old]}
"""

    rest = "labels"
    stored: tuple[str, ...] = Field(alias="labels", min_length=1)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(can_start=True, used_labels=self.stored)

    def describe(self) -> str:
        return ", ".join(self.stored)

    def infer_columns(self, before: Columns) -> Columns:
        return Columns(before.types, open=True)

    def trace_columns(self, before: Columns) -> Mapping[str, Origin]:
        return dict.fromkeys((*before, OTHERS), Origin((OTHERS,), labels=self.stored, is_copy=True))

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        stored = [(label, materialize(context.stored[label])) for label in self.stored]
        return union_tables([("the rows so far", rows), *stored])


def union_tables(tables: Iterable[tuple[str, DataFrame]]) -> DataFrame:
    """Combine the tables in order; raises RunError for a column with incompatible types."""
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    named = list(tables)
    _check_types(named)
    placed = (
        table.withColumn("_ordinal", F.concat(F.array(F.lit(position).cast("bigint")), "_ordinal"))
        for position, (_, table) in enumerate(named)
    )
    return reduce(lambda one, other: DataFrame.unionByName(one, other, allowMissingColumns=True), placed)


def _check_types(tables: Iterable[tuple[str, DataFrame]]) -> None:
    seen: dict[str, tuple[str, str]] = {}
    for source, table in tables:
        for name, type_ in table.dtypes:
            where, other = seen.setdefault(name.casefold(), (source, type_))
            if name not in ENGINE_COLUMNS and not _is_compatible(other, type_):
                raise RunError(
                    f"the column '{name}' is {other} in {where} and {type_} in {source}; give it one type, "
                    "with inferSchema or schema where it is loaded or a CAST in sql_query"
                )


def _is_compatible(one: str, other: str) -> bool:
    numbers = all(type_.partition("(")[0] in _NUMBERS for type_ in (one, other))
    return one == other or numbers or "void" in (one, other)
