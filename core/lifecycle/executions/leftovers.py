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

from sqlalchemy import ColumnElement, RowMapping, func, or_, select
from sqlalchemy.orm import Session

from core.data.datasets.versions import load_named_locations
from core.infra.cleanup import Cleanup
from core.infra.database import Database
from core.infra.settings import Settings
from core.infra.shared_values import SharedValuesWriter, replace_values, select_locked
from core.infra.storage.protocol import FAILURES, GIVEN_ROWS, LOG, Storage, StoredFile, executions_key, output_key
from core.tables import Execution, ExecutionBill, Job, now
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
    "progress": {},
}
# parts of the metrics, of which an answer or a later execution needs the named fields alone
KEPT_METRICS: Mapping[str, Sequence[str]] = {"metrics": ["executorSeconds"], "additional": ["engine", "resumedAfter"]}
# columns that are in the shared values of a job's executions then, with what is left in the row
SHARED: Mapping[str, Any] = {
    **dict.fromkeys(("job_name", "agent_id", "retry_on", "engine", "output_mode"), ""),
    **dict.fromkeys(("output_name", "spark_reason", "schedule_name", "dataset_id")),
}
SHARED_METRICS = ("additional", "output_dataset_format", "output_dataset_schema")
SHARED_OF_BILLS = (
    *("project_id", "job_id", "agent_id", "provider", "region", "currency"),
    *("driver_instance", "executor_instance"),
)
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

    A job's newest execution keeps them, since people look at it. What others of the job have too is stored once.
    """
    old = (Execution.state == State.COMPLETED, Execution.shared_id.is_(None), Execution.completed_at < before)
    columns = (Execution.organization_id, Execution.id, Execution.job_id, Execution.attempt, Execution.metrics)
    columns += (Execution.publishes, Execution.updated_at, Execution.details_removed_at)
    query = select(*columns, *(getattr(Execution, name) for name in SHARED)).join(Job, Job.id == Execution.job_id)
    query = query.where(*old, Execution.id != func.coalesce(Job.latest_execution_id, ""))
    if limit is None:
        return session.scalar(select(func.count()).select_from(query.subquery())) or 0
    found = select_locked(session, query.order_by(Execution.completed_at).limit(limit))
    writer, removed_at = SharedValuesWriter(session), now()
    replace_values(session, Execution, [_shrink(row, writer, removed_at) for row in found])
    for start in range(0, len(found), BATCH):
        bills = select(ExecutionBill).where(
            ExecutionBill.execution_id.in_([row["id"] for row in found[start : start + BATCH]]),
            ExecutionBill.shared_id.is_(None),
        )
        shrunk = [_shrink_bill(bill, writer) for bill in session.scalars(bills)]
        replace_values(session, ExecutionBill, shrunk)
    return len(found)


def get_output_path(execution: Mapping[str, Any]) -> str | None:
    """Return the path of an execution's output as its completion reported it, also where details were removed."""
    path = execution["metrics"].get("output_dataset_path")
    if path is None or execution["details_removed_at"] is None:
        return path
    return path.replace(OWN_OUTPUT, output_key(execution["organization_id"], execution["id"], execution["attempt"]))


def _shrink(row: RowMapping, writer: SharedValuesWriter, removed_at: datetime) -> Mapping[str, Any]:
    """Return the new values of an execution whose details go."""
    metrics = _shrink_metrics(row["metrics"], output_key(row["organization_id"], row["id"], row["attempt"]))
    shared = {name: value for name, value in metrics.items() if _is_shared(name, value, row)}
    names = [name for name in SHARED if name != "dataset_id" or row["publishes"]]  # a trial has its own
    content = {**{name: row[name] for name in names}, "metrics": shared, "progress": {"fraction": 1.0}}
    return {
        **NO_DETAILS,
        **{name: value if name in names else row[name] for name, value in SHARED.items()},
        "id": row["id"],
        "updated_at": row["updated_at"],
        "details_removed_at": row["details_removed_at"] or removed_at,
        "metrics": {name: value for name, value in metrics.items() if name not in shared},
        "shared_id": writer.store(content, organization_id=row["organization_id"], job_id=row["job_id"]),
    }


def _is_shared(name: str, value: Any, row: RowMapping) -> bool:
    """Return whether other executions of the job are likely to report the same."""
    if name == "output_dataset_path":
        return OWN_OUTPUT in value
    return name in SHARED_METRICS or (name == "spark_application_name" and value == row["job_name"])


def _shrink_bill(bill: ExecutionBill, writer: SharedValuesWriter) -> Mapping[str, Any]:
    shared = writer.store({name: getattr(bill, name) for name in SHARED_OF_BILLS}, organization_id=bill.organization_id)
    key = {"execution_id": bill.execution_id, "attempt": bill.attempt}
    return {**key, **dict.fromkeys(SHARED_OF_BILLS, ""), "shared_id": shared}


def _shrink_metrics(metrics: Mapping[str, Any], output: str) -> Mapping[str, Any]:
    parts = {
        part: {name: metrics[part][name] for name in names if name in metrics[part]}
        for part, names in KEPT_METRICS.items()
        if isinstance(metrics.get(part), dict)
    }
    named = {name: value for name, value in {**metrics, **parts}.items() if name not in COUNTS and value != {}}
    if path := metrics.get("output_dataset_path"):
        named["output_dataset_path"] = path.replace(output, OWN_OUTPUT)
    if figures := metrics.get("figures"):
        named["figures"] = {name: value for name, value in figures.items() if value != {}}
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
