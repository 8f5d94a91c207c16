"""One run of a plan on Spark: its coordination server, its engine, its counts and its result."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from pipelines.coordination.server import Coordinator, Counts
from pipelines.errors import RunError
from pipelines.filesystem import delete_folder
from pipelines.language.formats import Mode
from pipelines.language.json_values import PREVIEW_LENGTH
from pipelines.planning.context import OUTPUT, RunContext, Target
from pipelines.planning.plan import Plan, Step
from pipelines.spark.checkpoints import Checkpoints
from pipelines.spark.engine import Engine
from pipelines.spark.failures import locate_spark_errors
from pipelines.spark.output import SavedRows, WrittenFiles, check_existing, read_parquet, write_output
from pipelines.spark.result_checks import CheckResult, check_required_selectors, find_empty_selectors, run_checks
from pipelines.spark.session import configure_buckets
from pipelines.stages.dataframes import first_rows, to_records

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunResult:
    """The files that a run wrote: its output and what its stages saved; `preview` has the output's first rows.

    There is no output where its mode keeps earlier rows instead.
    """

    output: WrittenFiles | None
    saved: tuple[SavedRows, ...]
    preview: list[dict[str, Any]]
    seconds: float


class Run:
    """Runs a plan once, through one of `write`, `collect` and `collect_ordered`, all of which raise RunError.

    Use as a context manager. `get_counts`, `get_preview` and `check_results` may be used by other threads. The Python
    workers of the run get the variables of `environment`.
    """

    def __init__(
        self,
        plan: Plan,
        context: RunContext | None = None,
        preview_rows: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._plan = plan
        self._context = context or RunContext()
        self._since = int(time.time() * 1000)
        self._preview_rows = preview_rows
        self._coordinator = Coordinator(self._context.fetch, preview_rows, self._context.bind, environment)
        self._context = replace(self._context, fetch=self._coordinator.options)
        self._engine: Engine | None = None
        self._check_results: tuple[CheckResult, ...] = ()
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        self._resources.enter_context(self._coordinator)
        if self._context.cache.enabled:
            cache = replace(self._context.cache, private=self._open_folder("pages"))
            self._context = replace(self._context, cache=cache)
        self._context = replace(self._context, downloads=self._open_folder("files"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

    def _open_folder(self, name: str) -> str:
        """Return the address of a folder that all tasks reach, and which is deleted with the run."""
        if self._context.scratch is None:
            folder = TemporaryDirectory(prefix=f"spindle-{name}-", ignore_cleanup_errors=True)
            return self._resources.enter_context(folder)
        address = f"{self._context.scratch}/{name}"
        self._resources.callback(_delete_scratch, address)
        return address

    def write(self, spark: SparkSession, path: str) -> RunResult:
        """Write the output rows to a new folder, or as the next version of their table.

        Rows that Python workers produce are cached for formats other than Parquet only: their checks come before the
        commit, and their files are not read again. Rows of columnar files are read again instead.
        """
        with self._locate_errors():
            return self._write(self._start(spark), spark, path)

    def _write(self, engine: Engine, spark: SparkSession, path: str) -> RunResult:
        rows = engine.build_rows()
        output = engine.select_output(rows)
        if self._plan.output.mode is Mode.IGNORE and self._context.targets.get(OUTPUT, Target()).exists:
            self._check_failures()
            return RunResult(None, engine.saves.commit(), [], 0)
        if self._reads_twice(engine):
            rows.persist()
        started = time.monotonic()
        written = self._write_output(engine, output, path)
        preview = self._build_preview(engine, rows)
        return RunResult(written, engine.saves.commit(), preview, time.monotonic() - started)

    def _build_preview(self, engine: Engine, rows: DataFrame) -> list[dict[str, Any]]:
        if engine.last_worker_step is not None:
            return engine.select_preview(self._coordinator.get_preview(engine.last_worker_step))
        count = self._preview_rows
        # rows of files are in order already, and to sort them would read all of them
        first = rows.limit(count) if self._is_repeatable() else first_rows(rows, count)
        return to_records(engine.select_output(first), PREVIEW_LENGTH)

    def _is_repeatable(self) -> bool:
        return all(step.stage is None or step.stage.repeatable for step in self._plan.steps)

    def _reads_twice(self, engine: Engine) -> bool:
        """Return whether the preview, a merge or checks read rows again that are expensive to compute."""
        output = self._plan.output
        if engine.last_worker_step is not None:
            return output.format != "parquet"
        return not self._is_repeatable() or bool(output.keys or self._plan.checks)

    def _write_output(self, engine: Engine, output: DataFrame, path: str) -> WrittenFiles:
        """Write the rows and check them: files afterwards, since nobody reads them yet, tables before their commit."""
        if self._plan.output.format == "parquet":
            written = write_output(output, self._plan.output, path, self._context, self._since)
            self._check_failures()
            stored = read_parquet(output.sparkSession, output.schema, path)
            self._check_output(stored)
            engine.saves.copy_output(stored, self._plan.output)
            return written
        if engine.last_worker_step is not None or self._plan.checks:
            output.count()
        self._check_failures()
        self._check_output(output)
        engine.saves.copy_output(output, self._plan.output)
        return write_output(output, self._plan.output, path, self._context, self._since)

    def collect(self, spark: SparkSession) -> DataFrame:
        """Return the output rows, cached by Spark, in no order."""
        with self._locate_errors():
            engine = self._start(spark)
            rows = engine.build_rows()
            output = engine.select_output(rows) if rows.is_cached else engine.select_output(rows).persist()
            output.count()
            self._finish(engine, output)
            return output

    def collect_ordered(self, spark: SparkSession) -> DataFrame:
        """Return the output rows, cached by Spark, in document order."""
        with self._locate_errors():
            engine = self._start(spark)
            rows = engine.build_rows().persist()
            rows.count()
            self._finish(engine, engine.select_output(rows))
            return engine.select_output(rows.orderBy("_ordinal"))

    def _locate_errors(self) -> AbstractContextManager[None]:
        return locate_spark_errors(self._plan, self._coordinator.get_counts)

    def get_counts(self) -> dict[str, Counts]:
        """Return the counts so far by step key."""
        by_spark = self._engine.get_counts() if self._engine else {}
        return {key: Counts(rows=rows) for key, rows in by_spark.items()} | self._coordinator.get_counts()

    @property
    def check_results(self) -> tuple[CheckResult, ...]:
        """How the checks of the output ended, once they have run."""
        return self._check_results

    def list_failed_pages(self) -> Sequence[tuple[str, str]]:
        """Return the addresses of some pages that could not be fetched, with the reasons."""
        return self._coordinator.list_failed_pages()

    @property
    def resumed_after(self) -> Step | None:
        """The step whose rows were computed by an earlier attempt; None where the run began anew."""
        return self._engine.resumed_after if self._engine else None

    def get_preview(self, step: str) -> Iterable[Mapping[str, Any]]:
        """Return the first rows of a step that Python workers run, or that it shows, at most `preview_rows`."""
        shown = self._engine.shown.get(step) if self._engine else None
        return self._coordinator.get_preview(step) if shown is None else shown[: self._preview_rows]

    def _start(self, spark: SparkSession) -> Engine:
        configure_buckets(spark)
        check_existing(self._plan, self._context)
        folders = self._context.checkpoints
        checkpoints = Checkpoints(spark, self._plan, folders, self._coordinator) if folders else None
        self._engine = Engine(spark, self._plan, self._context, self._coordinator.endpoint, checkpoints)
        return self._engine

    def _finish(self, engine: Engine, output: DataFrame) -> None:
        """Check the cached output rows, and publish what stages saved."""
        self._check_failures()
        self._check_output(output)
        engine.saves.copy_output(output, self._plan.output)
        engine.saves.commit()

    def _check_output(self, output: DataFrame) -> None:
        """Raise RunError when a required selector found nothing, or a check of the output fails."""
        check_required_selectors(self._plan, self.get_counts())
        self._check_results = run_checks(self._plan.checks, output, self._context.limit)
        if failed := [str(each) for each in self._check_results if each.failed]:
            empty = find_empty_selectors(self._plan, self.get_counts())
            raise RunError("; ".join([*failed, *(str(found) for found, cause in empty if found is cause)]))

    def _check_failures(self) -> None:
        """Raise RunError when more of the distinct URLs failed than the pipeline allows."""
        fetches, allowed = self._coordinator.get_fetch_totals(), self._plan.options.max_failure_ratio
        if fetches.forbidden and not fetches.urls and allowed < 1:
            raise RunError(
                f"robots.txt forbids all {fetches.forbidden} addresses that were to be fetched; "
                "where the site's owner has agreed to it, 'spindle: {robots: ignore}' fetches them all the same"
            )
        if fetches.failed > allowed * fetches.urls:
            examples = "; ".join(f"{url}: {reason}" for url, reason in fetches.examples)
            raise RunError(
                f"{fetches.failed} of {fetches.urls} addresses could not be fetched, "
                f"spindle.maxFailureRatio allows {allowed:g}: {examples}"
            )


def _delete_scratch(address: str) -> None:
    try:
        delete_folder(address)
    except OSError:  # the run's rows are there all the same
        _log.warning("temporary files of the run are left in the storage", exc_info=True)
