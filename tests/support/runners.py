"""One plan on both runners: all that an execution shows of each run, in a form that can be compared."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.contract.report import RunResult
from pipelines.contract.request import Files
from pipelines.engine.options import make_cache_options, make_fetch_options
from pipelines.engine.partial_run import GrownOver
from pipelines.engine.result_checks import find_empty_selectors
from pipelines.engine.run import Run
from pipelines.errors import NeedsSpark, RunError
from pipelines.fetch.files import FileFolder
from pipelines.language.engines import Growth
from pipelines.local.engine_choice import find_spark_need
from pipelines.local.runner import LocalRunner
from pipelines.models.options import ModelOptions
from pipelines.pipeline import Pipeline
from pipelines.planning.plan import Plan
from pipelines.planning.stage import Export, Sink, TableStage
from pipelines.spark.runner import SparkRunner
from pipelines.stages.tables import Dedup
from pipelines.transforms.transform import Transforms
from tests.support.site import Site

PREVIEW_ROWS = 20
_EXAMPLES = re.compile("(?<=spindle.maxFailureRatio allows )([^:]*): .*")  # in the order in which they arrive
_TIMES = ("_fetchedAt", "visited_at")


@dataclass
class Outcome:
    """What a run shows; `stored` are the rows of the Parquet files, `ordered` the same in the order of the files."""

    failure: tuple[str, int | None] | None = None
    columns: tuple[tuple[str, str], ...] = ()
    schema: Sequence[str] = ()
    stored: Counter[str] | None = None
    ordered: Sequence[str] = ()
    is_ordered: bool = False
    preview: Sequence[Mapping[str, Any]] = ()
    previews: Mapping[str, Counter[str]] | None = None
    shown: Mapping[str, Any] | None = None
    counts: Mapping[str, tuple[int, int, int]] | None = None
    failed_pages: Sequence[tuple[str, str]] = ()
    checks: Sequence[str] = ()
    warnings: Sequence[str] = ()
    requests: Mapping[str, int] | None = None
    drift: Sequence[tuple[str, str]] = ()
    empty: Sequence[str] = ()
    malformed: Sequence[tuple[int, str]] = ()
    bounded: Sequence[str] = ()


Build = Callable[[Run], Any]


class Runners:
    """Runs plans on both runners over one site, whose requests it counts.

    `selectors` is the folder of proven selectors; without it each run begins without any. `pages` is the folder
    of a page cache that runs share. `model` is that of pipelines that name none. `environment` has the variables of
    credentials that tasks get. `inputs` are as in a RunContext.
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
        self.inputs: dict[str, Files] = {}

    def plan(self, text: str, transforms: Mapping[str, str] | None = None, **parameters: str) -> Plan:
        return Pipeline.from_yaml(text).plan(parameters, Transforms(dict(transforms or {})))

    def assert_equal(self, plan: Plan, limit: int | None = None) -> Outcome:
        """Run the plan once on each runner, which must show the same; return what they show."""
        need = find_spark_need(plan)
        assert need is None, f"{need} needs Spark"
        here, there = self.run_locally(plan, limit), self.run_on_spark(plan, limit)
        self.assert_same(here, there)
        return here

    def assert_same(self, one: Outcome, other: Outcome) -> None:
        differences = _list_differences(one, other)
        assert not differences, "\n".join(differences)

    def run_locally(self, plan: Plan, limit: int | None = None) -> Outcome:
        return self._observe(plan, limit, LocalRunner)

    def run_on_spark(self, plan: Plan, limit: int | None = None) -> Outcome:
        try:
            return self._observe(plan, limit, lambda run: SparkRunner(run, self._spark))
        finally:
            self._spark.catalog.clearCache()

    def run_growing(self, plan: Plan, growth: Growth, limit: int | None = None) -> tuple[Outcome, GrownOver | None]:
        """Run the plan locally until it grows over, then on Spark."""
        grown: list[GrownOver] = []
        try:
            outcome = self._observe(plan, limit, lambda run: _Growing(run, growth, self._spark, grown))
        finally:
            self._spark.catalog.clearCache()
        return outcome, grown[0] if grown else None

    def _observe(self, plan: Plan, limit: int | None, make: Build) -> Outcome:
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
                    outcome.schema, rows = _read_files(output)
                    assert result.output.rows == len(rows)
                    outcome.stored, outcome.ordered, outcome.is_ordered = Counter(rows), rows, _keeps_order(plan)
            counts = run.get_counts()
            if outcome.failure is None:  # a failure on Spark ends tasks and their counts halfway
                outcome.counts = {key: (each.rows, each.pages, each.errors) for key, each in counts.items()}
                previews = {key: run.get_preview(key) for key in counts}
                outcome.previews = {key: Counter(map(_show_row, rows)) for key, rows in previews.items()}
            outcome.shown = dict(run.engine.shown) if run.engine else None
            outcome.empty = [str(found) for found, cause in find_empty_selectors(plan, counts) if found is cause]
            outcome.malformed = [each.malformed for each in counts.values() if each.malformed[0]]
            outcome.bounded = [name for each in counts.values() for name in sorted(each.bounded)]
            outcome.drift = [(each.drift.field, each.step) for each in run.list_drift()]
            outcome.failed_pages = sorted((each.url, each.message) for each in run.list_failed_pages())
            outcome.checks = [f"{each} {each.figures}" for each in run.check_results]
        outcome.warnings = self._take_warnings()
        outcome.requests = self._take_requests()
        return outcome

    def _make_folder(self) -> Path:
        self._number += 1
        folder = self._folder / f"run{self._number}"
        folder.mkdir()
        return folder

    def _start(self, plan: Plan, limit: int | None) -> Run:
        fetch = make_fetch_options(plan.options, ("127.0.0.0/8",))
        files = FileFolder(str(self._make_folder() / "spindle_files"), "spindle_files")
        context = RunContext(
            files=files, limit=limit, fetch=fetch, selectors=self.selectors, model=self.model, inputs=self.inputs
        )
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
            return SparkRunner(self.run, self.spark, error.partial_run).write(path)


def _list_differences(one: Outcome, other: Outcome) -> list[str]:
    names = [each.name for each in fields(one) if each.name != "ordered" or one.is_ordered]
    pairs = ((name, getattr(one, name), getattr(other, name)) for name in names)
    return [f"{name}:\n  {first}\n  {second}" for name, first, second in pairs if first != second]


def _keeps_order(plan: Plan) -> bool:
    """Return whether the rows are written in document order: Spark sorts none after a dedup that no pass follows."""
    stages = (step.stage for step in reversed(plan.steps[:-1]))
    last = takewhile(lambda stage: isinstance(stage, TableStage | Sink | Export), stages)
    return not any(isinstance(stage, Dedup) for stage in last)


def _read_files(folder: Path) -> tuple[Sequence[str], Sequence[str]]:
    """Return the columns of the Parquet files with types and nullability, and their rows."""
    tables = [pq.ParquetFile(file).read() for file in sorted(folder.glob("*.parquet"))]
    schemas = {tuple(map(str, table.schema)) for table in tables}
    assert len(schemas) == 1
    return [*schemas.pop()], [repr(_drop_times(row)) for table in tables for row in table.to_pylist()]


def _show_row(row: Mapping[str, Any]) -> str:
    return repr(_drop_times(row))


def _drop_times(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _TIMES}
