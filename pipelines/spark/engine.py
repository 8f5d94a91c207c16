"""The DataFrames of a plan: sources, passes in Python workers, exchanges of links, table stages."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce

from pyspark import StorageLevel
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.browser.model import find_missing_browser
from pipelines.contract.context import RunContext
from pipelines.coordination.client import connect
from pipelines.engine.definition import Pass
from pipelines.engine.partial_run import PartialRun
from pipelines.engine.progress import ProgressReporter
from pipelines.engine.record_batches import LINK, OPEN, WITHOUT_VALUES, build_pass_schema, build_seeds
from pipelines.engine.segment import Segment
from pipelines.engine.walk import Engine
from pipelines.errors import RunError, summarize_error
from pipelines.extract.rows import Link
from pipelines.language.columns import Columns, list_own_columns, quote_column, quote_fields
from pipelines.language.engines import EngineName
from pipelines.planning.plan import Plan, Step
from pipelines.planning.planner import check_references
from pipelines.planning.stage import Export, Sink, Source, TableStage
from pipelines.spark.checkpoints import Checkpoints
from pipelines.spark.cluster import count_cores, is_local_master
from pipelines.spark.dataframes import create_rows
from pipelines.spark.explore import Explorer, take_first
from pipelines.spark.observations import read_observation
from pipelines.spark.output import Saves, order_rows
from pipelines.spark.schema_inference import infer_columns, infer_types_of_json
from pipelines.spark.tasks import get_columns, map_in_arrow, run_pass_in_task


class SparkEngine(Engine[DataFrame]):
    """Builds the DataFrames of one run; explores run while it builds, all other passes with the action on the rows.

    Only one action may read the rows of `last_worker_step`, unless the engine `keeps_rows`: a second one would fetch
    their pages again.
    """

    name = EngineName.SPARK

    def __init__(
        self,
        spark: SparkSession,
        plan: Plan,
        context: RunContext,
        checkpoints: Checkpoints | None = None,
        partial_run: PartialRun | None = None,
    ) -> None:
        super().__init__(plan, context)
        self._spark = spark
        self._partial_run = partial_run
        self.saves = Saves(self._context)
        self._observed: dict[str, Observation] = {}
        self._checkpoints = checkpoints
        self._counted: Mapping[str, int] = {}
        self._resumed_after: Step | None = None
        self._keeps_rows = False
        self._bounded: dict[str, set[str]] = {}

    def build_rows(self) -> DataFrame:
        local = is_local_master(self._spark.sparkContext.master or "")
        if local and self._plan.uses_browser and (missing := find_missing_browser()):
            raise RunError(missing)
        return super().build_rows()

    def select_output(self, rows: DataFrame) -> DataFrame:
        """Return the output's columns of `rows`."""
        return _select(rows, self._columns)

    def get_counts(self) -> dict[str, int]:
        """Return the numbers of rows of finished steps that Spark itself runs, by step key."""
        observed = self._observed.copy().items()  # another thread may be building DataFrames
        counts = ((key, read_observation(each)) for key, each in observed)
        return {**self._counted, **{key: int(row[0]) for key, row in counts if row is not None}}

    @property
    def resumed_after(self) -> Step | None:
        """The step whose rows an earlier attempt has computed, and the first of which this run has the rows."""
        return self._resumed_after

    @property
    def keeps_rows(self) -> bool:
        """Whether the rows of the last pass can be read again: those of explores are checkpointed."""
        return self._keeps_rows

    def _begin(self) -> tuple[Segment[DataFrame] | None, Sequence[Step]]:
        """Return the rows to go on with, if there are any, and the steps that are left.

        They are those of a partial run, or of the earlier attempts' last checkpoint.
        """
        if self._partial_run:
            return self._take_over(self._partial_run)
        steps = self._plan.steps[:-1]
        resumption = self._checkpoints.resume(self.shown) if self._checkpoints else None
        if resumption is None:
            return None, steps
        step = self._resumed_after = resumption.step
        self._counted = resumption.counted
        number = steps.index(step) + 1
        for earlier in steps[:number]:
            if isinstance(earlier.stage, TableStage) and earlier.key in resumption.rows:
                earlier.stage.apply(resumption.rows[earlier.key], self._context)
        check_references(steps[number:], resumption.columns)
        return Segment(resumption.rows[step.key], step.key, resumption.columns), steps[number:]

    def _take_over(self, partial_run: PartialRun) -> tuple[Segment[DataFrame], Sequence[Step]]:
        self._passes, self._counted = partial_run.passes, partial_run.counts
        self.shown.update(partial_run.shown)
        for step, stage, exported in partial_run.exports:
            self.saves.add_export(step, stage, create_rows(self._spark, exported))
        rows = create_rows(self._spark, partial_run.segment.rows)
        segment = partial_run.segment.with_rows(self._exchange(rows) if partial_run.segment.fetches else rows)
        return segment, partial_run.steps

    def _load_source(self, stage: Source) -> tuple[DataFrame, Columns]:
        rows = stage.load(self._spark, self._context)
        return rows, get_columns(rows.schema)

    def _rename(self, rows: DataFrame, column: str) -> DataFrame:
        return rows.withColumnRenamed(column, LINK)

    def _take_first(self, rows: DataFrame, number: int, after: DataFrame | None = None) -> DataFrame:
        last = after.agg(F.max("_ordinal")).first() if after is not None else None
        following = rows if last is None or last[0] is None else rows.where(F.col("_ordinal") > F.lit(last[0]))
        return take_first(following, number)

    def _keep(self, rows: DataFrame) -> DataFrame:
        self._keeps_rows = True
        # at once: Spark would count the rows of steps before a lazy one as none
        return rows.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)

    def _count_failures(self, rows: DataFrame) -> tuple[int, int]:
        found = rows.agg(F.count(F.lit(1)), F.count_if(_is_failure(rows.columns))).first() or (0, 0)
        return found[0], found[1]

    def _concatenate(self, parts: Sequence[DataFrame]) -> DataFrame:
        return reduce(DataFrame.unionByName, parts)

    def _apply_table_stage(
        self, segment: Segment[DataFrame], step: Step, stage: TableStage | Sink | Export
    ) -> Segment[DataFrame]:
        columns = stage.infer_columns(segment.after)
        rows = self._finish(segment, None)
        if stage.persists:
            rows = self._persist(step, self._count_rows(step, rows), columns)
        with self._locate_errors(step):
            if isinstance(stage, TableStage):
                rows = stage.apply(rows, replace(self._context, step=step.key))
            else:
                ordered = order_rows(rows) if isinstance(stage, Sink) and self.saves.writes_file(stage) else rows
                saved = _select(ordered, segment.after.with_columns(self._get_kept_columns(segment.after)))
                if isinstance(stage, Sink):
                    self.saves.write(stage, saved)
                else:
                    self.saves.add_export(step, stage, saved)
        if "_ordinal" not in rows.columns:
            rows = rows.withColumn("_ordinal", F.array(F.monotonically_increasing_id()))
        rows = rows if stage.persists else self._count_rows(step, rows)
        return Segment(rows, step.key, columns if columns.are_known else get_columns(rows.schema, columns))

    def _persist(self, step: Step, rows: DataFrame, columns: Columns) -> DataFrame:
        """Return rows that are computed once: in files, where later attempts find them, or in memory."""
        if self._checkpoints and self._checkpoints.has(step):
            known = get_columns(rows.schema, columns) if columns.open else columns
            written = self._checkpoints.write(step, rows, known, self.get_counts, self.shown)
            if written is not None:
                return written
        return rows.persist()

    def _compute(self, rows: DataFrame) -> None:
        rows.count()

    def _count_rows(self, step: Step, rows: DataFrame) -> DataFrame:
        """Count the rows during the action that computes them."""
        observation = Observation()
        observed = rows.observe(observation, F.count(F.lit(1)).alias("rows"))
        self._observed[step.key] = observation  # after `observe`, which initializes it
        return observed

    def _create_empty(self) -> DataFrame:
        return self._spark.range(0).select(F.array(F.col("id")).alias("_ordinal"))

    def _create_seeds(self, links: Sequence[Link]) -> DataFrame:
        return self._spark.createDataFrame(build_seeds(links)).coalesce(1)

    def _exchange(self, links: DataFrame) -> DataFrame:
        """Distribute links over all cores; equal links become neighbours in one partition, in document order.

        Sorting by hash mixes the pages of different hosts.
        """
        ordinal = F.array_join(F.col("_ordinal").cast("array<string>"), ".")
        hashed = F.xxhash64(F.coalesce(F.col(LINK), ordinal))
        # with a number: adaptive execution would merge small partitions into one
        partitioned = links.repartition(count_cores(self._spark.sparkContext), hashed)
        return partitioned.sortWithinPartitions(hashed, LINK, "_ordinal")

    def _leave_out_failures(self, rows: DataFrame) -> DataFrame:
        has_values = OPEN in rows.columns or bool(list_own_columns(rows.columns))
        return rows.where(~_is_failure(rows.columns)) if has_values else rows

    def _infer_columns(self, rows: DataFrame, columns: Columns, step: Step, fails: bool) -> tuple[DataFrame, Columns]:
        typed = infer_columns(rows, columns, step, fails, self._context.endpoint)
        return typed.rows, typed.columns

    def _set_json_types(self, rows: DataFrame, columns: Columns) -> tuple[DataFrame, Columns]:
        typed = infer_types_of_json(rows, columns)
        return typed.rows, typed.columns

    def _run(self, task: Pass, segment: Segment[DataFrame]) -> DataFrame:
        self._keeps_rows = bool(task.get_explorations())
        if not self._keeps_rows:
            return self._run_pass(task, segment.rows)
        partitions = count_cores(self._spark.sparkContext)
        explorer = Explorer(self._run_pass, self._exchange, partitions, self._report_bounded)
        partial_run, self._partial_run = self._partial_run, None
        if partial_run and partial_run.explored:
            schema = from_arrow_schema(build_pass_schema(task))
            records = [self._spark.createDataFrame(each, schema) for each in partial_run.explored.records]
            return explorer.go_on(task, records, partial_run.explored.key)
        return explorer.run_levels(task, segment.rows, segment.in_one_task)

    def _report_bounded(self, key: str, templates: Iterable[str]) -> None:
        self._bounded.setdefault(key, set()).update(templates)
        if self._bounded[key]:
            reporter = ProgressReporter(connect(self._context.endpoint, f"{key}/templates"))
            reporter.get_counts(key).bounded |= self._bounded[key]
            reporter.close()

    def _run_pass(self, task: Pass, rows: DataFrame) -> DataFrame:
        output = map_in_arrow(
            rows, partial(run_pass_in_task, self._name_pass(task)), from_arrow_schema(build_pass_schema(task))
        )
        is_joined = task.links is None or bool(task.get_explorations())
        return self._declare_unknown_size(output) if task.fetches and is_joined else output

    def _declare_unknown_size(self, rows: DataFrame) -> DataFrame:
        """Return rows that Spark does not take for few, as it does with all rows of a single address.

        Joins would collect them in the heap. With adaptive execution, joins measure them first. Links for the next
        pass alone meet no join.
        """
        nothing = self._spark.createDataFrame(self._spark.sparkContext.emptyRDD(), rows.schema)
        return rows.union(nothing)

    @contextmanager
    def _locate_errors(self, step: Step) -> Generator[None]:
        try:
            with super()._locate_errors(step):
                yield
        except (AnalysisException, ParseException) as error:
            raise RunError(f"line {step.line}: {step.title}: {summarize_error(error)}", step.line) from error


def _is_failure(names: Sequence[str]) -> Column:
    """Return whether a row has an error and no value in any column of its own."""
    if "_error" not in names:
        return F.lit(False)
    empty = [_get_column(name).isNull() for name in list_own_columns(names)]
    if OPEN in names:
        empty.append(F.col(OPEN).isNull() | F.col(OPEN).rlike(WITHOUT_VALUES))
    return reduce(Column.__and__, empty, F.col("_error").isNotNull())


def _select(rows: DataFrame, columns: Columns) -> DataFrame:
    """Return these columns of the rows; null for a missing column."""
    present = set(rows.columns)
    absent = (F.lit(None).cast(quote_fields(type_)).alias(name) for name, type_ in columns.types if name not in present)
    return rows.select(*(_get_column(name) for name in columns if name in present), *absent)


def _get_column(name: str) -> Column:
    return F.col(quote_column(name))
