"""Schedules of projects as Dagster's schedules: at a tick they call the service, which executes the jobs.

A tick returns no run requests: the executions are stored before Dagster knows of their runs, and the launcher starts
those as it does for REST. A run then adds itself to its tick.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from dagster import (
    AssetKey,
    AssetSelection,
    DagsterInstance,
    DefaultScheduleStatus,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SkipReason,
)

from core.definitions.schedules.outlines import ScheduleOutline
from core.infra.database import Database, open_database
from core.infra.settings import Settings
from core.lifecycle.firing.previews import describe_tick_preview
from core.lifecycle.firing.results import describe_tick
from core.lifecycle.firing.schedules import FiredTick, fire
from core.tables import now
from orchestration.dagster_internals import ASSET_JOB, RemoteRepositoryOrigin, add_run_to_tick, is_tick

Target = str | tuple[AssetKey, ...]  # a job of Dagster by name, or assets


def build_schedule(outline: ScheduleOutline, target: Target = ASSET_JOB) -> ScheduleDefinition:
    """Return the schedule, which fires ticks of the stored one, as that of the target's assets."""
    jobs = f"job {outline.job_name!r}" if outline.job_name else "enabled jobs"
    return ScheduleDefinition(
        name=outline.name,
        cron_schedule=outline.cron,
        execution_timezone=outline.timezone,
        job_name=target if isinstance(target, str) else None,
        target=None if isinstance(target, str) else AssetSelection.assets(*target),
        execution_fn=_make_tick_function(outline.schedule_id),
        default_status=DefaultScheduleStatus.RUNNING if outline.enabled else DefaultScheduleStatus.STOPPED,
        description=f"Executes the {jobs} of the project {outline.project_name!r}.",
        tags={"spindle/project": outline.group},
    )


def record_run_of_tick(
    instance: DagsterInstance, repository: RemoteRepositoryOrigin, name: str, tick_at: datetime, run_id: str
) -> bool:
    """Add the run to its tick; return False while the daemon still works on the tick."""
    lock_path = Path(instance.root_directory) / "ticks.lock"
    with lock_path.open("w") as lock:  # several runs of a tick start at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        return add_run_to_tick(instance, repository, name, tick_at, run_id)


def _make_tick_function(schedule_id: str) -> Callable[[ScheduleEvaluationContext], SkipReason]:
    def execute_tick(context: ScheduleEvaluationContext) -> SkipReason:
        settings, database = _open()
        tick_at = context.scheduled_execution_time.astimezone(UTC)
        if not is_tick(context):
            return SkipReason(describe_tick_preview(database, schedule_id, tick_at))
        tick: FiredTick = fire(database, settings, schedule_id, tick_at, now())
        return SkipReason(describe_tick(database, tick))

    return execute_tick


@cache
def _open() -> tuple[Settings, Database]:
    settings = Settings()
    return settings, open_database(settings)
