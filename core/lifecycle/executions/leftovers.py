"""Leftovers of executions besides their outputs: specs, scratch, checkpoints, logs, lists of failed pages, and details.

Rows of executions stay; old completed ones lose their details: what drivers and retries read, and the progress of
stages. An execution that has not ended keeps all of its files, and so does a job's newest one that has failed or was
cancelled: it may be retried, and then resumes after its checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby, islice
from typing import Any

from sqlalchemy import ColumnElement, func, or_, select, update
from sqlalchemy.orm import Session

from core.data.datasets.versions import load_named_locations
from core.infra.cleanup import Cleanup
from core.infra.database import Database
from core.infra.settings import Settings
from core.infra.storage.protocol import FAILURES, GIVEN_ROWS, LOG, Storage, StoredFile, executions_key, output_key
from core.tables import Execution, Job, now
from core.tables.executions import COUNTS
from core.tables.states import State

FOLDERS, LOGS, DELETED = "folders of executions", "logs of executions", "files of deleted executions"
OUTPUTS = ("output", "saves")  # these go with the versions of their dataset
BATCH = 200
# the defaults of columns that only drivers and retries read, which a completed execution has no more
NO_DETAILS: Mapping[str, Any] = {
    **{name: {} for name in ("row_transforms", "outputs", "credentials")},
    **{name: [] for name in ("steps", "plugins", "arguments")},
    **{name: None for name in ("package_lock", "engine_build", "sealed_environment", "driver")},
    **{name: None for name in ("instance_id", "claimed_at", "heartbeat_at")},
    "pipeline_yaml": "",
    "parameters": {},
    "progress": {"fraction": 1.0},
}
# parts of the metrics, of which an answer or a later execution needs the named fields alone
KEPT_METRICS: Mapping[str, Sequence[str]] = {"metrics": ["executorSeconds"], "additional": ["engine", "resumedAfter"]}
OWN_OUTPUT = "{output}"  # in the path of the output: the key that its execution tells


def may_go_on() -> ColumnElement[bool]:
    """Return the condition for executions of which nothing is removed: joined with their jobs."""
    unfinished = Execution.state.in_([state for state in State if not state.terminal])
    return or_(unfinished, (Execution.id == Job.latest_execution_id) & (Execution.state != State.COMPLETED))


def delete_leftovers(
    cleanup: Cleanup, database: Database, storage: Storage, settings: Settings, organization_id: str, at: datetime
) -> None:
    """Delete the files of an organization's executions that are not kept any longer, and of those that were deleted."""
    retention = settings.retention
    before = {FOLDERS: at - timedelta(days=retention.folder_days), LOGS: at - timedelta(days=retention.log_days)}
    unknown_before = at - timedelta(hours=settings.files.removed_files_hours)
    for batch in _list_executions(storage, organization_id):
        with database.read() as session:
            ends = _load_ends(session, batch, at)
            named = load_named_locations(session, organization_id) if batch.keys() - ends.keys() else set[str]()
        owners = {location.split("/")[2] for location in named if location.startswith(executions_key(organization_id))}
        for execution_id, files in batch.items():
            if ends.get(execution_id, at) < max(before.values()):  # unless it was retried in the meantime
                with database.read() as session:
                    ends = {**ends, execution_id: _load_ends(session, [execution_id], at).get(execution_id, at)}
            for file in files:
                kind = _get_kind(file)
                if execution_id in ends:
                    if kind and max(ends[execution_id], file.modified_at) < before[kind]:
                        cleanup.delete_file(kind, storage, file)
                elif (kind or execution_id not in owners) and file.modified_at < unknown_before:
                    cleanup.delete_file(DELETED, storage, file)


def remove_details(session: Session, before: datetime, limit: int | None) -> int:
    """Remove the details of executions that completed before a time; without a limit, only count them.

    A job's newest execution keeps them, since people look at it.
    """
    old = (Execution.state == State.COMPLETED, Execution.details_removed_at.is_(None), Execution.completed_at < before)
    columns = (Execution.organization_id, Execution.id, Execution.attempt, Execution.metrics)
    query = select(*columns).join(Job, Job.id == Execution.job_id)
    query = query.where(*old, Execution.id != func.coalesce(Job.latest_execution_id, ""))
    if limit is None:
        return session.scalar(select(func.count()).select_from(query.subquery())) or 0
    found = session.execute(query.order_by(Execution.completed_at).limit(limit)).tuples().all()
    kept = {"updated_at": Execution.updated_at, "details_removed_at": now()}
    for organization_id, id_, attempt, metrics in found:
        shrunk = _shrink_metrics(metrics, output_key(organization_id, id_, attempt))
        values = {**NO_DETAILS, **kept, "metrics": shrunk}
        session.execute(update(Execution).where(Execution.id == id_).values(values))
    return len(found)


def get_output_path(execution: Mapping[str, Any]) -> str | None:
    """Return the path of an execution's output as its completion reported it, also where details were removed."""
    path = execution["metrics"].get("output_dataset_path")
    if path is None or execution["details_removed_at"] is None:
        return path
    return path.replace(OWN_OUTPUT, output_key(execution["organization_id"], execution["id"], execution["attempt"]))


def _shrink_metrics(metrics: Mapping[str, Any], output: str) -> Mapping[str, Any]:
    parts = {
        part: {name: metrics[part][name] for name in names if name in metrics[part]}
        for part, names in KEPT_METRICS.items()
        if isinstance(metrics.get(part), dict)
    }
    named = {name: value for name, value in {**metrics, **parts}.items() if name not in COUNTS and value != {}}
    if path := metrics.get("output_dataset_path"):
        named["output_dataset_path"] = path.replace(output, OWN_OUTPUT)
    return {**named, "counts": [metrics.get(name) for name in COUNTS]}


def _list_executions(storage: Storage, organization_id: str) -> Iterator[Mapping[str, list[StoredFile]]]:
    """Yield the files of some executions at a time, by the execution's id, without their outputs."""
    files = (each for each in storage.list(executions_key(organization_id)) if not _is_output(each))
    executions = groupby(files, key=lambda file: file.key.split("/")[2])
    while batch := {execution_id: list(found) for execution_id, found in islice(executions, BATCH)}:
        yield batch


def _load_ends(session: Session, execution_ids: Iterable[str], at: datetime) -> Mapping[str, datetime]:
    """Return when each of the executions has ended: now for one that may go on, and nothing for unknown ones."""
    query = select(Execution.id, Execution.completed_at, Execution.updated_at, may_go_on())
    found = session.execute(query.join(Job, Job.id == Execution.job_id).where(Execution.id.in_(execution_ids)))
    return {id_: at if goes_on else completed_at or updated_at for id_, completed_at, updated_at, goes_on in found}


def _is_output(file: StoredFile) -> bool:
    return any(part in OUTPUTS for part in file.key.split("/")[4:5])


def _get_kind(file: StoredFile) -> str | None:
    """Return the kind of a file; None for downloaded files, which rows name."""
    parts = file.key.split("/")
    if parts[3] == GIVEN_ROWS:
        return FOLDERS
    if not parts[3].isdecimal():
        return None
    return LOGS if parts[-1] in (LOG, FAILURES) else FOLDERS
