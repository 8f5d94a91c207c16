"""The columns of a partition: a last step that adds them to the rows of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pipelines.errors import PipelineError, Problem, RunError
from pipelines.filesystem import split_address
from pipelines.language.columns import Columns
from pipelines.language.formats import PARQUET_FORMATS, Mode
from pipelines.language.origins import Origin
from pipelines.planning.plan import Kind, Plan, Step, make_step_key
from pipelines.planning.stage import Sink, TableStage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pipelines.contract.context import RunContext

CODE = "unfit-partition"
DESCRIPTION = "Key of the partition"


class AddPartition(TableStage):
    """Add a column of one text for each dimension of the partition."""

    keeps_rows: ClassVar[bool] = True
    columns: dict[str, str]

    def describe(self) -> str:
        return ", ".join(f"{name} = '{value}'" for name, value in self.columns.items())

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns(tuple((name, "string") for name in self.columns))

    def trace_columns(self, before: Columns) -> Mapping[str, Origin]:
        return dict.fromkeys(self.columns, Origin(description=DESCRIPTION))

    def needs_spark(self, before: Columns) -> bool:
        return False

    def apply(self, rows: DataFrame, context: RunContext) -> DataFrame:
        from pyspark.sql import functions as F

        self._check(Columns(tuple(rows.dtypes)))
        # a literal would make the column one without nulls, which the files of the other runner have not
        return rows.withColumns({name: F.nullif(F.lit(value), F.lit("")) for name, value in self.columns.items()})

    def apply_locally(self, rows: pa.Table, context: RunContext) -> pa.Table:
        import pyarrow as pa

        self._check(Columns(tuple((name, "string") for name in rows.column_names)))
        for name, value in self.columns.items():
            rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.string()), rows.num_rows))
        return rows

    def _check(self, before: Columns) -> None:
        if taken := before.find_taken(self.columns):
            raise RunError(describe_taken(taken[0]))


def describe_taken(name: str) -> str:
    return f"the rows have a column '{name}' already, which the partition adds: leave it out, or rename it"


def add_partition(plan: Plan, columns: Mapping[str, str]) -> Plan:
    """Return the plan of a run for a partition, whose rows have these columns too.

    Raises PipelineError for a plan that would change rows of other partitions, or has such a column.
    """
    output, final = plan.output, plan.steps[-1]
    problems: list[Problem] = []
    if output.mode is not Mode.OVERWRITE:
        message = f"a job with partitions replaces one of them, and cannot write with mode {output.mode.value}"
        problems.append(Problem("output.mode", message, final.line, code=CODE))
    if output.format not in PARQUET_FORMATS:
        message = f"a job with partitions writes {', '.join(PARQUET_FORMATS)}, and not {output.format}"
        problems.append(Problem("output.format", message, final.line, code=CODE))
    if output.partition_by:
        message = "a job with partitions has files of its own for each of them: leave partitionBy out"
        problems.append(Problem("output.partitionBy", message, final.line, code=CODE))
    if output.path and split_address(output.path):
        message = "a path in a bucket would get the rows of the last partition alone: leave the path out"
        problems.append(Problem("output.path", message, final.line, code=CODE))
    for step in plan.steps:
        if isinstance(step.stage, Sink) and step.stage.mode is Mode.OVERWRITE:
            message = f"{step.name} with mode overwrite would replace the rows of other partitions; let it append"
            problems.append(Problem(step.name, message, step.line, code=CODE))
    if taken := plan.columns.find_taken(columns):
        problems.append(Problem("output", describe_taken(taken[0]), final.line, code=CODE))
    if problems:
        raise PipelineError(problems)
    stage = AddPartition(columns=dict(columns))
    after = stage.infer_columns(plan.columns)
    title = f"partition {stage.describe()}"
    step = Step(make_step_key(len(plan.steps), "partition"), title, Kind.TABLE, after, final.line, stage)
    steps = (*plan.steps[:-1], step, replace(final, columns=after))
    return replace(plan, steps=steps, partition=columns)
