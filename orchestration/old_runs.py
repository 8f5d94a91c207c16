"""Removal of Dagster's runs that are not kept any longer."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path

from dagster import DagsterInstance, DagsterRunStatus, RunsFilter
from sqlalchemy import select

from core.infra.cleanup import Cleanup
from core.infra.database import Database
from core.lifecycle.executions.leftovers import may_go_on
from core.tables import Execution, ExecutionAttempt, Job
from orchestration.dagster_run_internals import list_output_folders, list_run_files
from orchestration.instance import LOCATION
from orchestration.outages import describe_outage, is_outage

BATCH = 100
ENDED = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]
OWN = {".dagster/repository": f"__repository__@{LOCATION}"}  # not those of the operator's other code locations


def delete_old_runs(instance: DagsterInstance, database: Database, cleanup: Cleanup, before: datetime) -> None:
    """Delete the runs that ended before a time, except for those of executions that may go on. Raises Unavailable."""
    try:
        page = _list_ended(instance, before, None)
        while page:
            following = _list_ended(instance, before, page[-1])  # first: a deleted run is no cursor
            kept = _load_needed(database, page)
            for run_id in (each for each in page if each not in kept):
                cleanup.count("runs of Dagster", 1, sum(map(_get_size, list_run_files(instance, run_id))))
                if not cleanup.dry_run:
                    _delete(instance, run_id)
            page = following
    except Exception as error:
        if not is_outage(error):
            raise
        raise describe_outage(error) from error


def delete_lost_output(instance: DagsterInstance, before: datetime) -> None:
    """Delete the old output on this machine of runs that another instance has deleted. Raises Unavailable."""
    try:
        for folder in list_output_folders(instance):
            if folder.stat().st_mtime < before.timestamp() and not instance.has_run(folder.name):
                shutil.rmtree(folder, ignore_errors=True)
    except Exception as error:
        if not is_outage(error):
            raise
        raise describe_outage(error) from error


def _get_size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # another cleanup has deleted it, or SQLite its log
        return 0


def _delete(instance: DagsterInstance, run_id: str) -> None:
    instance.delete_run(run_id)  # it leaves the files
    for file in list_run_files(instance, run_id):
        file.unlink(missing_ok=True)
    instance.compute_log_manager.delete_logs(prefix=[run_id])


def _list_ended(instance: DagsterInstance, before: datetime, cursor: str | None) -> Sequence[str]:
    filters = RunsFilter(statuses=ENDED, tags=OWN, updated_before=before)
    return [each.dagster_run.run_id for each in instance.get_run_records(filters, limit=BATCH, cursor=cursor)]


def _load_needed(database: Database, run_ids: Collection[str]) -> set[str]:
    """Return the runs whose execution may go on, with those of its earlier attempts."""
    goes_on = select(Execution.id).join(Job, Job.id == Execution.job_id).where(may_go_on())
    with database.read() as session:
        current = session.scalars(
            select(Execution.run_id).where(Execution.run_id.in_(run_ids), Execution.id.in_(goes_on))
        )
        attempts = select(ExecutionAttempt.run_id).where(ExecutionAttempt.run_id.in_(run_ids))
        earlier = session.scalars(attempts.where(ExecutionAttempt.execution_id.in_(goes_on)))
        return {each for each in (*current, *earlier) if each is not None}
