"""The rows of a plan as Arrow tables, computed by passes in this process."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from pipelines.browser.model import find_missing_browser
from pipelines.columns.types import get_columns
from pipelines.contract.context import RunContext
from pipelines.coordination.client import connect
from pipelines.engine.definition import Pass
from pipelines.engine.json_columns import build_typed_schema, convert_json_batch, infer_json_types, set_json_types
from pipelines.engine.open_columns import (
    SAMPLE_ROWS,
    Conversion,
    convert_batch,
    describe_lack,
    infer_open_columns,
    mixes_types,
)
from pipelines.engine.partial_run import Explored, GrownOver, PartialRun
from pipelines.engine.progress import ProgressReporter
from pipelines.engine.record_batches import LINK, OPEN, build_pass_schema, build_rows_schema, build_seeds
from pipelines.engine.segment import Segment
from pipelines.engine.walk import Engine
from pipelines.engine.worker import run_pass
from pipelines.errors import NeedsSpark, RunError
from pipelines.extract.rows import Link
from pipelines.language.columns import ENGINE_COLUMNS, Columns
from pipelines.language.engines import EngineName, Growth
from pipelines.local.explore import TooManyPages, run_levels
from pipelines.local.table_output import find_need
from pipelines.local.tables import (
    exchange_links,
    leave_out_failures,
    mark_failures,
    rename_column,
    select_columns,
    sort_rows,
    take_first,
)
from pipelines.planning.plan import Plan, Step
from pipelines.planning.stage import Export, RowStage, Sink, Source, TableStage


class LocalEngine(Engine[pa.Table]):
    """Runs the passes of one run, one after another; raises GrownOver for more than `growth` allows.

    The rows of files are read when it is created: those that only Spark reads raise NeedsSpark. Once `stop` is set, no
    further page is fetched, and the rows of the pages so far go through the rest of the plan.
    """

    name = EngineName.LOCAL

    def __init__(
        self, plan: Plan, context: RunContext, growth: Growth | None = None, stop: threading.Event | None = None
    ) -> None:
        super().__init__(plan, context)
        self._growth = growth
        self._stop = stop or threading.Event()
        self._counts: dict[str, int] = {}
        self._left = [*plan.steps[:-1]]
        self._exports: list[tuple[Step, Export, pa.Table]] = []
        self._loaded: dict[Source, tuple[pa.Table, Columns]] = {}
        for step in self._left:
            with self._locate_errors(step):
                if isinstance(step.stage, Source) and not step.stage.gives_page:
                    self._loaded[step.stage] = step.stage.load_locally(self._context)
                elif isinstance(step.stage, Export):
                    step.stage.prepare(self._context)
                elif isinstance(step.stage, TableStage):
                    step.stage.prepare_locally(replace(self._context, step=step.key))

    def build_rows(self) -> pa.Table:
        if self._plan.uses_browser and (missing := find_missing_browser()):
            raise RunError(missing)
        rows = sort_rows(super().build_rows())
        self._check_needs(rows)
        return rows

    def _check_needs(self, rows: pa.Table) -> None:
        """Raise GrownOver where only Spark checks or writes the rows, NeedsSpark where the run stays here."""
        if (need := self._find_need(rows)) is None:
            return
        if self._growth:
            segment = Segment(rows, self._plan.steps[-2].key, self._columns)
            raise GrownOver(self._build_partial_run(segment), str(need))
        raise need

    def _find_need(self, rows: pa.Table) -> NeedsSpark | None:
        for call in self._plan.checks:
            if not call.check.find_missing_columns(self._columns) and call.check.needs_spark(self._columns):
                return NeedsSpark(f"only Spark measures the check {call.name} over these columns", call.node.line)
        return None if self._stop.is_set() else find_need(self._plan, self._context, self.select_output(rows).schema)

    def select_output(self, rows: pa.Table) -> pa.Table:
        """Return the output's columns of `rows`."""
        return select_columns(rows, self._columns)

    def write_exports(self) -> None:
        """Write to other systems, as the last act of the run; raise RunError."""
        for step, stage, rows in self._exports:
            with self._locate_errors(step):
                stage.export(rows.schema, rows.to_batches(), replace(self._context, step=step.key))

    def get_counts(self) -> dict[str, int]:
        return self._counts.copy()

    def _add_step(self, segment: Segment[pa.Table] | None, step: Step) -> Segment[pa.Table] | None:
        self._left = [*self._plan.steps[self._plan.steps.index(step) : -1]]
        added = super()._add_step(segment, step)
        self._left = self._left[1:]
        return added

    def _load_source(self, stage: Source) -> tuple[pa.Table, Columns]:
        return self._loaded.pop(stage, None) or stage.load_locally(self._context)

    def _create_seeds(self, links: Sequence[Link]) -> pa.Table:
        return build_seeds(links)

    def _create_empty(self) -> pa.Table:
        return build_rows_schema(Columns()).empty_table()

    def _rename(self, rows: pa.Table, column: str) -> pa.Table:
        return rename_column(rows, column, LINK)

    def _exchange(self, links: pa.Table) -> pa.Table:
        return exchange_links(links)

    def _take_first(self, rows: pa.Table, number: int, after: pa.Table | None = None) -> pa.Table:
        return take_first(rows, number, after)

    def _count_failures(self, rows: pa.Table) -> tuple[int, int]:
        return rows.num_rows, sum(mark_failures(rows))

    def _concatenate(self, parts: Sequence[pa.Table]) -> pa.Table:
        return pa.concat_tables(parts)

    def _compute(self, rows: pa.Table) -> None:
        pass  # a pass has run when it returns its rows

    def _count_rows(self, step: Step, rows: pa.Table) -> pa.Table:
        self._counts[step.key] = rows.num_rows
        return rows

    def _apply_table_stage(
        self, segment: Segment[pa.Table], step: Step, stage: TableStage | Sink | Export
    ) -> Segment[pa.Table]:
        rows = sort_rows(self._finish(segment, None))
        if isinstance(stage, Export):
            kept = segment.after.with_columns(self._get_kept_columns(segment.after))
            self._exports.append((step, stage, select_columns(rows, kept)))
            return Segment(self._count_rows(step, rows), step.key, segment.after)
        if not isinstance(stage, TableStage):
            raise RunError(f"{step.title} needs Spark")
        if self._growth and stage.needs_spark(segment.after):  # the types of its columns were not known before
            raise GrownOver(self._build_partial_run(Segment(rows, segment.last_step, segment.after)))
        with self._locate_errors(step):
            rows = stage.apply_locally(rows, replace(self._context, step=step.key))
        columns = stage.infer_columns(segment.after)
        if not columns.are_known:
            own = {*ENGINE_COLUMNS, LINK} - {*columns}
            columns = Columns(tuple(each for each in get_columns(rows.schema).types if each[0] not in own))
        return Segment(self._count_rows(step, rows), step.key, columns)

    def _leave_out_failures(self, rows: pa.Table) -> pa.Table:
        return leave_out_failures(rows)

    def _infer_columns(self, rows: pa.Table, columns: Columns, step: Step, fails: bool) -> tuple[pa.Table, Columns]:
        ordered = sort_rows(rows)
        errors = ordered.column("_error").to_pylist()
        texts = [text for text, error in zip(ordered.column(OPEN).to_pylist(), errors, strict=True) if error is None]
        inferred = infer_open_columns(texts if mixes_types(step) else texts[:SAMPLE_ROWS], columns, step)
        if inferred is None:
            raise RunError(describe_lack(next((error for error in errors if error is not None), None)))
        conversion = Conversion.build(inferred, LINK in rows.column_names, step, fails)
        reporter = ProgressReporter(connect(self._context.endpoint, f"{step.key}/open/0"))
        with self._locate_pass(step.key):
            converted = [convert_batch(conversion, batch, reporter) for batch in rows.to_batches()]
        reporter.close()
        return pa.Table.from_batches(converted, conversion.schema), inferred.columns

    def _set_json_types(self, rows: pa.Table, columns: Columns) -> tuple[pa.Table, Columns]:
        shown = infer_json_types(rows.column(OPEN).to_pylist(), columns)
        columns = set_json_types(columns, shown)
        schema = build_typed_schema(columns, rows.column_names)
        return pa.Table.from_batches(
            [convert_json_batch(each, shown, schema) for each in rows.to_batches()], schema
        ), columns

    def _run(self, task: Pass, segment: Segment[pa.Table]) -> pa.Table:
        growth, rows = None if self._stop.is_set() else self._growth, segment.rows
        if growth and (rows.num_rows > self._get_most_rows(growth, task) or rows.nbytes > growth.bytes):
            raise GrownOver(self._build_partial_run(segment))
        if not task.get_explorations():
            return self._run_pass(task, rows)
        try:
            most_pages = self._get_most_pages(growth, task) if growth else None
            return run_levels(task, rows, self._run_pass, most_pages, self._stop)
        except TooManyPages as error:
            raise GrownOver(self._build_partial_run(segment, error.explored)) from None

    def _get_most_rows(self, growth: Growth, task: Pass) -> int:
        return min(growth.rows, self._get_most_pages(growth, task)) if task.fetches else growth.rows

    def _get_most_pages(self, growth: Growth, task: Pass) -> int:
        """Return the most pages that one process fetches, fewer where more cores would make the pass faster."""
        stages = (stage for _, stage in task.stages if isinstance(stage, RowStage))
        is_slow = task.fetching.browsing is not None or any(stage.is_slow for stage in stages)
        return growth.slow_pages if is_slow and (os.cpu_count() or 1) > 1 else growth.pages

    def _build_partial_run(self, segment: Segment[pa.Table], explored: Explored | None = None) -> PartialRun:
        counts = self.get_counts()
        return PartialRun(segment, self._left, self._since, self.passes, counts, self.shown, explored, self._exports)

    def _run_pass(self, task: Pass, rows: pa.Table) -> pa.Table:
        with _restore_process(), self._locate_pass(task.enters):
            batches = run_pass(self._name_pass(task), rows.to_batches(), stop=self._stop)
            return pa.Table.from_batches(batches, build_pass_schema(task))


@contextmanager
def _restore_process() -> Generator[None]:
    """Restore the environment and the thresholds of the garbage collector, which a pass sets in its process.

    Otherwise Spark, to which a run may grow over, would inherit the values of credentials.
    """
    variables, thresholds = dict(os.environ), gc.get_threshold()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        for name in os.environ.keys() - variables.keys():
            del os.environ[name]
        os.environ.update(variables)
