"""One plan on both runners: all that an execution shows of each run, in a form that can be compared."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipelines.errors import NeedsSpark, RunError
from pipelines.fetch.files import FileFolder
from pipelines.language.engines import Growth
from pipelines.local.choice import find_spark_need
from pipelines.local.runner import LocalRunner
from pipelines.models import ModelOptions
from pipelines.passes.handover import GrownOver
from pipelines.passes.results import RunResult
from pipelines.passes.run import Run
from pipelines.pipeline import Pipeline
from pipelines.planning.context import RunContext
from pipelines.planning.model import make_cache_options, make_fetch_options
from pipelines.planning.plan import Plan
from pipelines.spark.runner import SparkRunner
from pipelines.transforms.transform import Transforms
from tests.support.site import Site

PREVIEW_ROWS = 20
_EXAMPLES = re.compile("(?<=spindle.maxFailureRatio allows )([^:]*): .*")  # in the order in which they arrive
_TIMES = ("_fetchedAt", "visited_at")


@dataclass
class Outcome:
    """What a run shows; `stored` are the rows of the Parquet files and `ordered` those in document order."""

    failure: tuple[str, int | None] | None = None
    columns: tuple[tuple[str, str], ...] = ()
    schema: Sequence[str] = ()
    stored: Counter[str] | None = None
    ordered: Sequence[str] = ()
    preview: Sequence[Mapping[str, Any]] = ()
    previews: Mapping[str, Counter[str]] | None = None
    shown: Mapping[str, Any] | None = None
    counts: Mapping[str, tuple[int, int, int]] | None = None
    failed_pages: Sequence[tuple[str, str]] = ()
    checks: Sequence[str] = ()
    warnings: Sequence[str] = ()
    requests: Mapping[str, int] | None = None
    drift: Sequence[tuple[str, str]] = ()


Build = Callable[[Run], Any]


class Runners:
    """Runs plans on both runners over one site, whose requests it counts.

    `selectors` is the folder of proven selectors; without it each run begins without any. `pages` is the folder
    of a page cache that runs share. `model` is that of pipelines that name none. `environment` has the variables of
    credentials that tasks get.
    """

    def __init__(self, spark: SparkSession, folder: Path, log: pytest.LogCaptureFixture, site: Site | None) -> None:
        self._spark = spark
        self._folder = folder
        self._log = log
        self._site = site
        self._number = 0
        self.selectors: str | None = None
        self.pages: str | None = None
        self.model: ModelOptions | None = None
        self.environment: dict[str, str] | None = None

    def plan(self, text: str, transforms: Mapping[str, str] | None = None, **parameters: str) -> Plan:
        return Pipeline.from_yaml(text).plan(parameters, Transforms(dict(transforms or {})))

    def assert_equal(self, plan: Plan, limit: int | None = None, orders: bool = True) -> Outcome:
        """Run the plan on both runners, which must show the same; return what they show."""
        need = find_spark_need(plan)
        assert need is None, f"{need} needs Spark"
        here, there = self.run_locally(plan, limit, orders), self.run_on_spark(plan, limit, orders)
        self.assert_same(here, there)
        return here

    def assert_same(self, one: Outcome, other: Outcome) -> None:
        differences = _list_differences(one, other)
        assert not differences, "\n".join(differences)

    def run_locally(self, plan: Plan, limit: int | None = None, orders: bool = True) -> Outcome:
        def collect(run: Run) -> pa.Table | None:
            return LocalRunner(run).collect() if orders else None

        return self._observe(plan, limit, LocalRunner, collect)

    def run_on_spark(self, plan: Plan, limit: int | None = None, orders: bool = True) -> Outcome:
        def collect(run: Run) -> pa.Table | None:
            return SparkRunner(run, self._spark).collect_ordered().toArrow() if orders else None

        try:
            return self._observe(plan, limit, lambda run: SparkRunner(run, self._spark), collect)
        finally:
            self._spark.catalog.clearCache()

    def run_growing(self, plan: Plan, growth: Growth, limit: int | None = None) -> tuple[Outcome, GrownOver | None]:
        """Run the plan locally until it grows over, then on Spark."""
        grown: list[GrownOver] = []

        def collect(run: Run) -> pa.Table:
            try:
                return LocalRunner(run, growth).collect()
            except GrownOver as error:
                return SparkRunner(run, self._spark, error.handover).collect_ordered().toArrow()

        try:
            outcome = self._observe(plan, limit, lambda run: _Growing(run, growth, self._spark, grown), collect)
        finally:
            self._spark.catalog.clearCache()
        return outcome, grown[0] if grown else None

    def _observe(self, plan: Plan, limit: int | None, make: Build, collect: Build) -> Outcome:
        outcome, output = Outcome(), self._make_folder() / "output"
        with ExitStack() as stack:
            run = stack.enter_context(self._start(plan, limit))
            try:
                result = make(run).write(str(output))
            except NeedsSpark:
                raise
            except RunError as error:
                outcome.failure = (_EXAMPLES.sub(r"\1", str(error)), error.line)
            else:
                outcome.preview = [_drop_times(row) for row in result.preview]
                if result.output:
                    outcome.columns = result.output.columns
                    outcome.schema, outcome.stored = _read_files(output)
                    assert result.output.rows == outcome.stored.total()
            counts = run.get_counts()
            if outcome.failure is None:  # a failure on Spark ends tasks and their counts halfway
                outcome.counts = {key: (each.rows, each.pages, each.errors) for key, each in counts.items()}
                previews = {key: run.get_preview(key) for key in counts}
                outcome.previews = {key: Counter(map(_show_row, rows)) for key, rows in previews.items()}
            outcome.shown = dict(run.engine.shown) if run.engine else None
            outcome.drift = [(each.drift.field, each.step) for each in run.list_drift()]
            outcome.failed_pages = sorted((each.url, each.message) for each in run.list_failed_pages())
            outcome.checks = [f"{each} {each.figures}" for each in run.check_results]
        outcome.warnings = self._take_warnings()
        outcome.requests = self._take_requests()
        if outcome.failure is None:
            with self._start(plan, limit) as run:
                ordered = collect(run)
                outcome.ordered = [] if ordered is None else [*map(repr, _list_rows(ordered))]
            self._take_requests()
            self._take_warnings()
        return outcome

    def _make_folder(self) -> Path:
        self._number += 1
        folder = self._folder / f"run{self._number}"
        folder.mkdir()
        return folder

    def _start(self, plan: Plan, limit: int | None) -> Run:
        fetch = make_fetch_options(plan.options, ("127.0.0.0/8",))
        files = FileFolder(str(self._make_folder() / "spindle_files"), "spindle_files")
        context = RunContext(files=files, limit=limit, fetch=fetch, selectors=self.selectors, model=self.model)
        context = replace(context, cache=make_cache_options(plan.options, replace(context.cache, shared=self.pages)))
        self._take_requests()
        return Run(plan, context, PREVIEW_ROWS, self.environment)

    def _take_requests(self) -> Mapping[str, int]:
        if self._site is None:
            return {}
        found, self._site.requests = self._site.requests, Counter()
        # two tasks may request a page at the same time, when one of them was led there by a redirect
        led_to = {*self._site.redirects.values()}
        return {path: 1 if path in led_to else number for path, number in found.items() if path != "/robots.txt"}

    def _take_warnings(self) -> Sequence[str]:
        records = [record for record in self._log.records if record.name.startswith("pipelines")]
        self._log.clear()
        return sorted(record.getMessage() for record in records if record.levelno >= logging.WARNING)


@dataclass
class _Growing:
    """Writes the rows of a run locally, or on Spark once it has `grown`."""

    run: Run
    growth: Growth
    spark: SparkSession
    grown: list[GrownOver]

    def write(self, path: str) -> RunResult:
        try:
            return LocalRunner(self.run, self.growth).write(path)
        except GrownOver as error:
            self.grown.append(error)
            return SparkRunner(self.run, self.spark, error.handover).write(path)


def _list_differences(one: Outcome, other: Outcome) -> list[str]:
    pairs = ((each.name, getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    return [f"{name}:\n  {first}\n  {second}" for name, first, second in pairs if first != second]


def _read_files(folder: Path) -> tuple[Sequence[str], Counter[str]]:
    """Return the columns of the Parquet files with types and nullability, and their rows."""
    files = sorted(folder.glob("*.parquet"))
    schemas = {tuple(map(_describe_field, pq.ParquetFile(file).schema_arrow)) for file in files}
    assert len(schemas) == 1
    rows = (row for file in files for row in _list_rows(pq.ParquetFile(file).read()))
    return [*schemas.pop()], Counter(map(repr, rows))


def _describe_field(field: pa.Field) -> str:
    return f"{field}"


def _list_rows(table: pa.Table) -> list[dict[str, Any]]:
    return [_drop_times(row) for row in table.to_pylist()]


def _show_row(row: Mapping[str, Any]) -> str:
    return repr(_drop_times(row))


def _drop_times(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _TIMES}
