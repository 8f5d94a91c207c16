"""Runs a plan in this process, without Spark."""

from __future__ import annotations

import sys
import threading
import time
from importlib.abc import MetaPathFinder

import pyarrow as pa

from pipelines.contract.report import Changes, RunResult, WrittenFiles
from pipelines.engine.run import Run
from pipelines.incremental.selection import (
    DIGESTS,
    PAGE_COLUMN,
    digest_rows,
    drop_pages,
    filter_pages,
    group_digests,
)
from pipelines.language.engines import Growth
from pipelines.language.formats import Mode
from pipelines.language.json_values import PREVIEW_LENGTH, list_records
from pipelines.local.engine import LocalEngine
from pipelines.local.history import read_states, write_history
from pipelines.local.output import copy_output, write_output, write_rows
from pipelines.local.result_checks import Split, run_checks, set_aside


class LocalRunner:
    """Runs a plan in this process, through `write` or `collect`.

    Both raise RunError, NeedsSpark before any page is fetched, and GrownOver where `growth` limits the run. Once `stop`
    is set, `collect` returns the rows of the pages so far: it neither checks them nor writes them anywhere.
    """

    def __init__(self, run: Run, growth: Growth | None = None, stop: threading.Event | None = None) -> None:
        skip_pandas()
        self._run = run
        self._growth = growth
        self._stop = stop or threading.Event()
        self.rejected: pa.Table | None = None

    def write(self, path: str) -> RunResult:
        """Write the output rows to a new folder."""
        run = self._run
        is_history = run.plan.output.mode is Mode.HISTORY
        earlier = read_states(run.build_transition()) if is_history else None
        engine, rows = self._build_rows()
        run.check_failures()
        if run.keeps_output:
            engine.write_exports()
            return RunResult(None, (), [], 0)
        split = set_aside(run.plan.checks, engine.select_output(self._choose_rows(engine, rows)))
        output, started = split.output, time.monotonic()
        self._check_output(split)
        rejected = self._write_rejected(split)
        if run.keeps_earlier(output.num_rows):
            engine.write_exports()
            return RunResult(None, (), [], 0, rejected=rejected)
        changes: Changes | None = None
        if is_history:
            transition, since = run.build_transition(), run.since
            written, changes = write_history(
                output, path, transition, earlier, run.context.author, since, split.rejected
            )
        else:
            written = write_output(output, run.plan, path, run.context, run.since)
        engine.write_exports()
        if engine.last_worker_step is not None and run.page_counts is None and rejected is None:
            preview = engine.select_preview(run.coordinator.get_preview(engine.last_worker_step))
        else:
            preview = list_records(output.slice(0, run.preview_rows), PREVIEW_LENGTH)
        return RunResult(written, (), preview, time.monotonic() - started, changes, rejected)

    def collect(self) -> pa.Table:
        """Return the output rows in document order; `rejected` are those that checks have set aside."""
        engine, rows = self._build_rows()
        if self._stop.is_set():
            return engine.select_output(self._choose_rows(engine, rows))
        plan, context = self._run.plan, self._run.context
        self._run.check_failures()
        split = set_aside(plan.checks, engine.select_output(self._choose_rows(engine, rows)))
        self._check_output(split)
        copy_output(split.output, plan.output, context, self._run.since)
        self.rejected = split.rejected
        if split.rejected is not None:
            copy_output(split.rejected, plan.output.for_rejected(), context, self._run.since)
        engine.write_exports()
        return split.output

    def _write_rejected(self, split: Split) -> WrittenFiles | None:
        folder = self._run.context.rejected_folder
        return None if split.rejected is None or folder is None else write_rows(split.rejected, folder)

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

    def _check_output(self, split: Split) -> None:
        run = self._run
        run.check_result(lambda: run_checks(run.plan.checks, split, run.check_context))


class _PandasBlocker(MetaPathFinder):
    """Refuses to import pandas."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ImportError(fullname)


def skip_pandas() -> None:
    """Keep pyarrow from importing pandas for its first array, which takes longer than a small run."""
    blocker = _PandasBlocker()
    sys.meta_path.insert(0, blocker)
    pa.array([])
    sys.meta_path.remove(blocker)
