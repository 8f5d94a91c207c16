"""Runs a plan in this process, without Spark."""

from __future__ import annotations

import threading
import time

import pyarrow as pa

from pipelines.errors import RunError
from pipelines.incremental.selection import (
    DIGESTS,
    PAGE_COLUMN,
    digest_rows,
    drop_pages,
    filter_pages,
    group_digests,
)
from pipelines.language.engines import Growth
from pipelines.language.json_values import PREVIEW_LENGTH, list_records
from pipelines.local.engine import LocalEngine
from pipelines.local.output import copy_output, write_output
from pipelines.passes.result_checks import CheckResult, judge
from pipelines.passes.results import RunResult
from pipelines.passes.run import Run
from pipelines.planning.checks import Check, CheckCall
from pipelines.planning.context import OUTPUT, Target


class LocalRunner:
    """Runs a plan in this process, through `write` or `collect`.

    Both raise RunError, NeedsSpark before any page is fetched, and GrownOver where `growth` limits the run. Once `stop`
    is set, `collect` returns the rows of the pages so far: it neither checks them nor writes them anywhere.
    """

    def __init__(self, run: Run, growth: Growth | None = None, stop: threading.Event | None = None) -> None:
        self._run = run
        self._growth = growth
        self._stop = stop or threading.Event()

    def write(self, path: str) -> RunResult:
        """Write the output rows to a new folder."""
        run = self._run
        engine, rows = self._build_rows()
        run.check_failures()
        if run.keeps_output:
            engine.write_exports()
            return RunResult(None, (), [], 0)
        output = engine.select_output(self._choose_rows(engine, rows))
        started = time.monotonic()
        self._check_output(output)
        if run.keeps_earlier(output.num_rows):
            engine.write_exports()
            return RunResult(None, (), [], 0)
        written = write_output(output, run.plan.output, path, run.context.targets.get(OUTPUT, Target()))
        engine.write_exports()
        if engine.last_worker_step is not None and run.page_counts is None:
            preview = engine.select_preview(run.coordinator.get_preview(engine.last_worker_step))
        else:
            preview = list_records(output.slice(0, run.preview_rows), PREVIEW_LENGTH)
        return RunResult(written, (), preview, time.monotonic() - started)

    def collect(self) -> pa.Table:
        """Return the output rows in document order."""
        engine, rows = self._build_rows()
        if self._stop.is_set():
            return engine.select_output(self._choose_rows(engine, rows))
        self._run.check_failures()
        output = engine.select_output(self._choose_rows(engine, rows))
        self._check_output(output)
        copy_output(output, self._run.plan.output, self._run.context)
        engine.write_exports()
        return output

    def _choose_rows(self, engine: LocalEngine, rows: pa.Table) -> pa.Table:
        """Return the rows that an incremental run writes; all rows of another run."""
        run = self._run
        if run.plan.options.incremental is None:
            return rows
        rows = rows.filter(rows.column("_error").is_null())  # the next execution requests their pages again
        known, columns = run.context.known, tuple(engine.columns)
        job = known.job if known else ""
        digests = pa.Table.from_batches([digest_rows(each, columns, job) for each in rows.to_batches()], DIGESTS)
        found = group_digests(digests)
        selection = run.choose_pages(found)
        rows = rows.append_column(PAGE_COLUMN, digests.column(PAGE_COLUMN))
        rows = engine.limit_rows(drop_pages(rows, selection.dropped))
        if run.context.limit is not None:
            kept = {*rows.column(PAGE_COLUMN).to_pylist(), *selection.dropped.to_pylist()}
            selection = run.choose_pages(filter_pages(found, kept))
        run.keep_pages(selection)
        return rows.drop_columns([PAGE_COLUMN])

    def _build_rows(self) -> tuple[LocalEngine, pa.Table]:
        run = self._run
        run.check_existing()
        engine = LocalEngine(run.plan, run.context, self._growth, self._stop)
        run.set_engine(engine)
        return engine, engine.build_rows()

    def _check_output(self, output: pa.Table) -> None:
        run = self._run
        run.check_result(lambda: tuple(_measure(call, output, run.context.limit) for call in run.plan.checks))


def _measure(call: CheckCall, output: pa.Table, limit: int | None) -> CheckResult:
    if missing := [name for name in call.check.list_columns() if name not in output.column_names]:
        raise RunError(f"{call.location}: the output has no column '{missing[0]}'")
    return judge(call, {**call.check.measure_locally(output), Check.ROWS: output.num_rows}, limit)
