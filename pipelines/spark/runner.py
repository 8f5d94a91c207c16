"""Runs a plan on Spark."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StructType

from pipelines.contract.report import Changes, RunResult, WrittenFiles
from pipelines.engine.partial_run import PartialRun
from pipelines.engine.run import Run
from pipelines.incremental.selection import DIGESTS, HIGH, LOW, PAGE_COLUMN, SUMS, digest_rows, filter_pages
from pipelines.language.columns import quote_column
from pipelines.language.formats import Mode
from pipelines.language.json_values import PREVIEW_LENGTH
from pipelines.planning.check import REJECTED_COLUMNS
from pipelines.planning.stage import Export, Sink, Source, TableStage
from pipelines.spark.checkpoints import Checkpoints
from pipelines.spark.dataframes import first_rows, to_records
from pipelines.spark.engine import SparkEngine
from pipelines.spark.failures import locate_spark_errors
from pipelines.spark.history import write_history
from pipelines.spark.observations import wait_for_listeners
from pipelines.spark.output import read_parquet, write_output, write_parquet
from pipelines.spark.result_checks import Split, run_checks, split_rejected, tag_rejected
from pipelines.spark.session import configure_buckets, configure_small_jobs
from pipelines.spark.tasks import map_in_arrow

_PART_BYTES = 32 * 1024 * 1024


class SparkRunner:
    """Runs a plan on Spark, through one of `write`, `collect` and `collect_ordered`, all of which raise RunError."""

    def __init__(self, run: Run, spark: SparkSession, partial_run: PartialRun | None = None) -> None:
        """With a `partial_run`, go on where another runner has stopped."""
        self._run = run
        self._spark = spark
        self._partial_run = partial_run
        self._plan = run.plan
        self.rejected: DataFrame | None = None

    def write(self, path: str) -> RunResult:
        """Write the output rows to a new folder, or as the next version of their table, in document order.

        Rows that Python workers produce are kept on disk: they are sorted, and for formats other than Parquet checked
        before the commit. Rows of columnar files are read again instead.
        """
        with self._locate_errors():
            result = self._write(self._start(), path)
            wait_for_listeners(self._spark)  # then the counts of the steps are whole
            return result

    def _write(self, engine: SparkEngine, path: str) -> RunResult:
        rows, run = engine.build_rows(), self._run
        if run.keeps_output:
            run.check_failures()
            return RunResult(None, engine.saves.commit(), [], 0)
        split = self._split(engine, self._persist(engine, rows))
        if self._plan.options.incremental and run.keeps_earlier(split.rows.count()):
            self._check_output(engine.select_output(split.rows), split)
            rejected = self._write_rejected(split)
            return RunResult(None, engine.saves.commit(), [], 0, rejected=rejected)
        rows = split.rows
        if engine.ends_in_pass or self._mixes_rows(engine):
            small = engine.ends_in_pass and rows.is_cached and _count_parts(rows) == 1
            rows = _sort_in_task(rows) if small else rows.orderBy("_ordinal")
        output, started = engine.select_output(rows), time.monotonic()
        if self._plan.output.mode is Mode.HISTORY:
            written, changes = self._write_history(engine, output, path, split)
        else:
            written, changes = self._write_output(engine, output, path, split), None
        rejected = self._write_rejected(split)
        preview = self._build_preview(engine, rows, path, shows_all=split.rejected is None)
        return RunResult(written, engine.saves.commit(), preview, time.monotonic() - started, changes, rejected)

    def _write_history(
        self, engine: SparkEngine, output: DataFrame, path: str, split: Split
    ) -> tuple[WrittenFiles | None, Changes]:
        """Write the next version of the output's history, after its checks, which see the rows of the run alone.

        The keys of rows that were set aside are not missing from it.
        """
        run = self._run
        limits = (step.stage.capabilities.max_rows for step in self._plan.steps if step.stage)
        if engine.passes or any(each is not None for each in limits):
            output.count()  # the counts of the steps tell whether the run has covered its source
            wait_for_listeners(self._spark)
        run.check_failures()
        self._check_output(output, split)
        return write_history(output, path, run.build_transition(), run.context.author, run.since, split.rejected)

    def _persist(self, engine: SparkEngine, rows: DataFrame) -> DataFrame:
        """Return the rows that the run writes, marked by the checks that set rows aside, and kept where necessary."""
        incremental, checks = self._plan.options.incremental is not None, self._plan.checks
        if incremental:
            rows = choose_rows(self._run, engine, rows)
        tagged = tag_rejected(checks, rows, [*engine.columns])
        if tagged is not rows:
            return tagged.persist(StorageLevel.DISK_ONLY)
        if engine.ends_in_pass and not (incremental or engine.keeps_rows):
            return self._keep(rows)
        if not (engine.ends_in_pass or incremental) and self._reads_twice():
            return rows.persist()
        return rows

    def _keep(self, rows: DataFrame) -> DataFrame:
        """Return the rows, computed and kept on disk, so that their size is known; joins want adaptive execution."""
        has_tables = any(isinstance(step.stage, TableStage) for step in self._plan.steps)
        with nullcontext() if has_tables else configure_small_jobs(self._spark):
            kept = rows.persist(StorageLevel.DISK_ONLY)
            kept.count()
        return kept

    def _reads_twice(self) -> bool:
        """Return whether rows that end in Spark are computed once and kept, since they are read several times."""
        merges = self._plan.output.mode is Mode.MERGE
        keeps = not self._is_repeatable() or merges or self._plan.checks
        return bool(keeps) and not self._shows_files()

    def _shows_files(self) -> bool:
        """Return whether the preview is read from the written files, whose rows are in no order."""
        output = self._plan.output
        return output.format == "parquet" and not output.keys and self._plan.ends_in_any_order

    def _mixes_rows(self, engine: SparkEngine) -> bool:
        """Return whether a pass or a join has mixed the rows, and no later stage has put them in order."""
        if self._plan.options.incremental is not None or not self._reads_twice():
            return False
        for step in reversed(self._plan.steps[:-1]):
            stage = step.stage
            if isinstance(stage, TableStage) and not stage.keeps_rows:
                does = stage.capabilities
                if does.sets_order or does.loses_order or does.max_rows is not None:
                    return False
            elif not isinstance(stage, Sink | Export):
                has_pages = not isinstance(stage, Source) or stage.gives_page
                return isinstance(stage, TableStage) or (engine.passes > 0 and has_pages)
        return False

    def _split(self, engine: SparkEngine, tagged: DataFrame) -> Split:
        split = split_rejected(self._plan.checks, tagged)
        if split.rejected is None:
            return split
        names = engine.select_output(tagged).columns
        rejected = split.rejected.orderBy("_ordinal") if engine.ends_in_pass else split.rejected
        return replace(split, rejected=rejected.select(*map(quote_column, (*names, *REJECTED_COLUMNS))))

    def _write_rejected(self, split: Split) -> WrittenFiles | None:
        folder = self._run.context.rejected_folder
        return None if split.rejected is None or folder is None else write_parquet(split.rejected, folder)

    def _build_preview(self, engine: SparkEngine, rows: DataFrame, path: str, shows_all: bool) -> list[dict[str, Any]]:
        if engine.last_worker_step is not None and self._run.page_counts is None and shows_all:
            return engine.select_preview(self._run.coordinator.get_preview(engine.last_worker_step))
        count = self._run.preview_rows
        if self._shows_files():
            stored = read_parquet(self._spark, engine.select_output(rows).schema, path)
            return to_records(stored.limit(count), PREVIEW_LENGTH)
        # rows of files are in order already, and to sort them would read all of them
        first = rows.limit(count) if self._is_repeatable() else first_rows(rows, count)
        return to_records(engine.select_output(first), PREVIEW_LENGTH)

    def _is_repeatable(self) -> bool:
        return all(step.stage is None or step.stage.repeatable for step in self._plan.steps)

    def _write_output(self, engine: SparkEngine, output: DataFrame, path: str, split: Split) -> WrittenFiles:
        """Write the rows and check them: files afterwards, since nobody reads them yet, tables before their commit."""
        if self._plan.output.format == "parquet":
            written = write_output(output, self._plan, path, self._run.context, self._run.since)
            self._run.check_failures()
            stored = read_parquet(output.sparkSession, output.schema, path)
            self._check_output(stored, split)
            engine.saves.copy_output(stored, self._plan.output)
            return written
        if engine.passes or self._plan.checks:
            output.count()  # the pages that have failed are known when the passes have run
        self._run.check_failures()
        self._check_output(output, split)
        engine.saves.copy_output(output, self._plan.output)
        return write_output(output, self._plan, path, self._run.context, self._run.since)

    def collect(self) -> DataFrame:
        """Return the output rows, cached by Spark, in no order."""
        with self._locate_errors():
            engine = self._start()
            split = self._split(engine, self._choose_rows(engine))
            rows = split.rows
            output = engine.select_output(rows) if rows.is_cached else engine.select_output(rows).persist()
            output.count()
            self._finish(engine, output, split)
            return output

    def collect_ordered(self) -> DataFrame:
        """Return the output rows, cached by Spark, in document order; `rejected` are those that checks set aside."""
        with self._locate_errors():
            engine = self._start()
            split = self._split(engine, self._choose_rows(engine))
            rows = split.rows.persist()
            rows.count()
            self._finish(engine, engine.select_output(engine.saves.order_output(rows, self._plan.output)), split)
            return engine.select_output(_sort_rows(rows))

    def _choose_rows(self, engine: SparkEngine) -> DataFrame:
        """Return the rows that the run writes, cached where checks have marked some."""
        rows = choose_rows(self._run, engine, engine.build_rows())
        tagged = tag_rejected(self._plan.checks, rows, [*engine.columns])
        return rows if tagged is rows else tagged.persist(StorageLevel.DISK_ONLY)

    def _locate_errors(self) -> AbstractContextManager[None]:
        return locate_spark_errors(self._plan, self._run.coordinator.get_counts)

    def _start(self) -> SparkEngine:
        configure_buckets(self._spark)
        self._run.check_existing()
        context = self._run.context
        folders = context.checkpoints
        checkpoints = Checkpoints(self._spark, self._plan, folders, self._run.coordinator) if folders else None
        if self._partial_run:
            context = replace(context, cache=replace(context.cache, since=self._partial_run.since))
        engine = SparkEngine(self._spark, self._plan, context, checkpoints, self._partial_run)
        self._run.set_engine(engine)
        return engine

    def _finish(self, engine: SparkEngine, output: DataFrame, split: Split) -> None:
        """Check the cached output rows, and publish the saves of stages."""
        wait_for_listeners(self._spark)
        self._run.check_failures()
        self._check_output(output, split)
        engine.saves.copy_output(output, self._plan.output)
        if split.rejected is not None:
            self.rejected = split.rejected
            engine.saves.copy_output(split.rejected, self._plan.output.for_rejected())
        engine.saves.commit()

    def _check_output(self, output: DataFrame, split: Split) -> None:
        run = self._run
        run.check_result(lambda: run_checks(self._plan.checks, output, split.counts, run.check_context))


def _sort_rows(rows: DataFrame) -> DataFrame:
    """Return the cached rows in document order, in parts of which the heap can hold a few: they are collected whole."""
    if (parts := _count_parts(rows)) == 1:
        return _sort_in_task(rows)
    return rows.repartitionByRange(parts, "_ordinal").sortWithinPartitions("_ordinal")


def _sort_in_task(rows: DataFrame) -> DataFrame:
    """Return few cached rows in document order, without the two jobs by which Spark divides many."""
    return rows.coalesce(1).sortWithinPartitions("_ordinal")


def _count_parts(rows: DataFrame) -> int:
    """Return into how many parts rows are divided; the size of those that are not computed yet counts as large."""
    java: Any = rows
    return int(java._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()) // _PART_BYTES + 1


def choose_rows(run: Run, engine: SparkEngine, rows: DataFrame) -> DataFrame:
    """Return the rows that an incremental run writes, computed and cached; those of another run as they are."""
    if run.plan.options.incremental is None:
        return rows
    known = run.context.known
    digest = partial(_add_digests, columns=tuple(engine.columns), job=known.job if known else "")
    schema = StructType([*rows.schema]).add(PAGE_COLUMN, BinaryType()).add(LOW, LongType()).add(HIGH, LongType())
    # rows with an error are left out: the next execution requests their pages again
    digested = map_in_arrow(rows.where(F.col("_error").isNull()), digest, schema).persist()
    found = _sum_digests(digested)
    run.check_failures()
    selection = run.choose_pages(found)
    chosen = digested
    if len(selection.dropped):
        dropped = pa.table({PAGE_COLUMN: selection.dropped.cast(pa.binary())})
        chosen = digested.join(rows.sparkSession.createDataFrame(dropped), PAGE_COLUMN, "left_anti")
    chosen = engine.limit_rows(chosen)
    if run.context.limit is not None:
        chosen = chosen.persist()
        kept = {bytes(row[0]) for row in chosen.select(PAGE_COLUMN).distinct().collect()}
        selection = run.choose_pages(filter_pages(found, {*kept, *selection.dropped.to_pylist()}))
    run.keep_pages(selection)
    return chosen.drop(*DIGESTS.names)


def _sum_digests(rows: DataFrame) -> pa.Table:
    sums = rows.groupBy(PAGE_COLUMN).agg(F.sum(LOW), F.sum(HIGH), F.count(F.lit(1)))
    return sums.toDF(*SUMS).toArrow()


def _add_digests(batches: Iterable[pa.RecordBatch], columns: tuple[str, ...], job: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        digests = digest_rows(batch, columns, job)
        schema = pa.schema([*batch.schema, *digests.schema])
        yield pa.RecordBatch.from_arrays([*batch.columns, *digests.columns], schema=schema)
