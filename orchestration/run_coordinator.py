"""Dagster run coordinator, selected in dagster.yaml: independent assets of one launch are executed side by side.

The UI launches one run for all assets of a selection. Assets that read each other stay in one run, upstream first; each
other part of the selection becomes a separate run, which waits for one of its project's slots.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import structlog
from dagster import DagsterRun, QueuedRunCoordinator, SubmitRunContext

from orchestration.instance import CRON_JOB, LOCATION
from orchestration.run_tags import build_asset_tags

INCOMPLETE = "Not all of these assets were launched: {error}. Their runs show which were; materialize the others again."

log = structlog.get_logger()


class SplittingRunCoordinator(QueuedRunCoordinator):
    """Queues the runs that a launch is split into, and returns the first, which the UI then shows."""

    def submit_run(self, context: SubmitRunContext) -> DagsterRun:
        run = context.dagster_run
        origin = run.remote_job_origin
        keys = run.asset_selection
        if origin is None or origin.location_name != LOCATION or run.job_name == CRON_JOB:
            return super().submit_run(context)
        if keys and (run.parent_run_id is not None or len(keys) == 1):
            self._instance.add_run_tags(run.run_id, build_asset_tags([key.path for key in keys]))
            return super().submit_run(context)
        from orchestration.run_splitting import split_run  # imports the engine, which few launches need

        runs = split_run(self._instance, run)
        first = super().submit_run(SubmitRunContext(next(runs), context.workspace))
        # a run creates a SQLite database: the UI does not wait for a hundred of them
        threading.Thread(target=self._submit_all, args=(runs, context), name="split run").start()
        return first

    def _submit_all(self, runs: Iterator[DagsterRun], context: SubmitRunContext) -> None:
        try:
            for run in runs:
                super().submit_run(SubmitRunContext(run, context.workspace))
        except Exception as error:
            log.exception("a launch was split incompletely", run_id=context.dagster_run.run_id)
            self._instance.report_run_failed(context.dagster_run, INCOMPLETE.format(error=error))
