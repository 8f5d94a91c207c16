"""Which runner a plan gets: one process without Spark, where that gives the same rows, or Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipelines.errors import Problem
from pipelines.filesystem import split_address
from pipelines.java import find_missing_java
from pipelines.language.columns import UNKNOWN
from pipelines.language.engines import EngineName
from pipelines.language.formats import PARQUET_FORMATS, SPLITTING_TYPES, TABLE_FORMATS, Mode
from pipelines.planning.plan import Plan
from pipelines.planning.stage import Source, Stage

CODE, JAVA_CODE = "needs-spark", "missing-java"
# those of pipelines.columns.types, which imports Arrow: the service chooses without it
_KNOWN_TYPE = re.compile(
    r"(?:[<>,\s]|array|map|struct|`(?:[^`]|``)*`:|\w+:|boolean|tinyint|smallint|int|bigint|float|double|string|binary"
    r"|date|timestamp|timestamp_ntz|void|json|unknown|decimal(?:\(\d+,\s*\d+\))?)*"
)


@dataclass(frozen=True, slots=True)
class SparkNeed:
    """The name and line of a part of a plan that only Spark runs, for example `sql_query`."""

    name: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.name} in line {self.line}" if self.line else self.name


@dataclass(frozen=True, slots=True)
class Choice:
    """The runner of a plan, and why Spark; with `asks_files` the run decides when it has read its files.

    A run that `may_change` goes on with Spark where it has to. The reason for Spark is in `line`.
    """

    runs_on_spark: bool
    reason: str = ""
    line: int | None = None
    asks_files: bool = False
    may_change: bool = True

    @property
    def may_grow(self) -> bool:
        """Whether the run goes on with Spark when it has many pages; without Java it ends where it began."""
        return self.may_change and find_missing_java() is None

    def __str__(self) -> str:
        if self.runs_on_spark:
            return f"Spark, because of {self.reason}"
        return "without Spark if the file allows it" if self.asks_files else "without Spark"


def choose_engine(plan: Plan, wanted: EngineName = EngineName.AUTO) -> Choice:
    """Return the runner of a plan: the one that it names, else the one that is `wanted`, else the fitting one."""
    named = plan.options.engine or wanted
    if named is EngineName.SPARK:
        return Choice(runs_on_spark=True, reason="the setting engine")
    need = find_spark_need(plan)
    if need is not None:
        return Choice(runs_on_spark=True, reason=str(need), line=need.line)
    looks = plan.output.mode is Mode.HISTORY or plan.output.format in TABLE_FORMATS
    files = looks or any(_reads_files(step.stage) for step in plan.steps)
    return Choice(runs_on_spark=False, asks_files=files, may_change=named is EngineName.AUTO)


def _reads_files(stage: Stage | None) -> bool:
    """Return whether a run looks at the stage's files before it fetches a page."""
    if isinstance(stage, Source):
        return not stage.gives_page
    return stage is not None and bool(stage.list_tables())


def find_engine_conflict(plan: Plan, wanted: EngineName = EngineName.AUTO) -> Problem | None:
    """Return the error of a plan that is to run locally and cannot."""
    named = plan.options.engine or wanted
    need = find_spark_need(plan) if named is EngineName.LOCAL else None
    if need is None:
        return None
    message = f"{need} needs Spark, and the engine is to be local; leave 'engine' out, and Spark is used where needed"
    return Problem("spindle.engine", message, need.line, code=CODE)


def find_java_need(choice: Choice) -> Problem | None:
    """Return the error of a plan for Spark on a machine without Java."""
    missing = find_missing_java() if choice.runs_on_spark else None
    return Problem("", f"{choice.reason} needs Spark, and {missing}", choice.line, code=JAVA_CODE) if missing else None


def find_spark_need(plan: Plan) -> SparkNeed | None:
    """Return the first part of a plan that only Spark runs as Spark does; None when one process does."""
    return next(_iter_spark_needs(plan), None)


def _iter_spark_needs(plan: Plan) -> Iterator[SparkNeed]:
    before = None
    for step in plan.steps:
        if step.stage is not None and step.stage.needs_spark(before.columns if before else step.columns):
            yield SparkNeed(step.name, step.line)
        for name, type_ in step.columns.types:
            if not _KNOWN_TYPE.fullmatch(type_):
                yield SparkNeed(f"the column {name}", step.line)
        before = step
    output, line = plan.output, plan.steps[-1].line
    if output.format not in PARQUET_FORMATS:
        yield SparkNeed(f"the output's format {output.format}", line)
    types = dict(plan.columns.types)
    split = {types.get(name, UNKNOWN) for name in output.partition_by}
    if split and not (output.format in TABLE_FORMATS and split <= {UNKNOWN, *SPLITTING_TYPES}):
        yield SparkNeed("the output's partitionBy", line)
    if output.path and split_address(output.path):
        yield SparkNeed("the output's bucket", line)
    for call in plan.checks:
        if call.check.needs_spark(plan.columns):
            yield SparkNeed(f"the check {call.name}", call.node.line)
