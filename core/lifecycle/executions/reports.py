"""Reports about an attempt: claimed, running, completed, failed, cancelled. All reporters use these functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import structlog
from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from core.data.datasets.repository import NewVersion
from core.data.files.process import FileReader
from core.definitions.jobs.models import compute_stale_at
from core.errors import BadInput, NotFound
from core.infra.database import Database, execute_update
from core.infra.instances import get_instance_id
from core.infra.repository import lock_organization, lock_project
from core.infra.storage.protocol import Storage
from core.infra.validation import is_storable
from core.lifecycle.executions.attempts import delete_checkpoints
from core.lifecycle.executions.events import record_progress
from core.lifecycle.executions.payload import CompletionPayload
from core.lifecycle.executions.publishing import (
    AttemptFiles,
    describe_foreign_output,
    find_conflict,
    is_output_of_attempt,
    keep_trial,
    list_attempt_files,
    name_current,
    publish_known_pages,
    publish_output,
    publish_rejected,
    publish_saves,
)
from core.lifecycle.executions.retries import REPORTED, FailureCode
from core.lifecycle.executions.states import Trigger
from core.lifecycle.executions.transitions import fail_attempt, move, release_slot
from core.tables import Execution, Job, now
from core.tables.executions import ExecutionDriver
from core.tables.states import TERMINAL, State
from pipelines.contract.progress import Progress

MAX_WARNINGS = 20
NO_MESSAGE = "The execution failed without saying why; its log may tell more."

log = structlog.get_logger()


def claim(database: Database, execution_id: str, attempt: int, run_id: str) -> Execution | None:
    """Claim the attempt for a Dagster run; of all runs that were launched for it, exactly one succeeds.

    Returns None when another run has it, when a newer attempt exists, and when it has ended.
    """
    claimable = (
        Execution.id == execution_id,
        Execution.attempt == attempt,
        Execution.state == State.PENDING,
        Execution.claimed_at.is_(None),
    )
    with database.write() as session:
        at = now()
        instance = get_instance_id(session.info["settings"].data)
        values = {"run_id": run_id, "instance_id": instance, "claimed_at": at, "heartbeat_at": at, "updated_at": at}
        if not execute_update(session, update(Execution).where(*claimable).values(values)):
            return None
        return session.get(Execution, execution_id)


def renew_claim(database: Database, execution_id: str, attempt: int) -> None:
    """Record that the claimed attempt still waits for a driver: its time begins with that, and it is not lost."""
    waiting = (Execution.id == execution_id, Execution.attempt == attempt, Execution.state == State.PENDING)
    with database.write() as session:
        values = {"claimed_at": now(), "heartbeat_at": now()}
        execute_update(session, update(Execution).where(*waiting, Execution.claimed_at.is_not(None)).values(values))


def return_claim(database: Database, execution_id: str, attempt: int, run_id: str) -> None:
    """Give back an attempt that has no driver yet: the launcher starts another run for it, which claims it again."""
    claimed = (Execution.id == execution_id, Execution.attempt == attempt, Execution.run_id == run_id)
    with database.write() as session:
        values = {"run_id": None, "instance_id": None, "claimed_at": None, "heartbeat_at": None, "updated_at": now()}
        execute_update(session, update(Execution).where(*claimed, Execution.state == State.PENDING).values(values))


def take_over_claim(database: Database, execution: Execution) -> bool:
    """Let this instance follow an attempt whose instance is lost; return False when another has it or it has ended."""
    same = (
        Execution.id == execution.id,
        Execution.attempt == execution.attempt,
        Execution.instance_id == execution.instance_id,
        Execution.state.not_in(TERMINAL),
    )
    with database.write() as session:
        instance = get_instance_id(session.info["settings"].data)
        return bool(execute_update(session, update(Execution).where(*same).values(instance_id=instance)))


def record_driver(database: Database, execution_id: str, attempt: int, driver: ExecutionDriver) -> None:
    """Record which driver the attempt has. Nothing depends on it, so the commit does not wait for the disk."""
    current = (Execution.id == execution_id, Execution.attempt == attempt)
    with database.write(durable=False) as session:
        execute_update(session, update(Execution).where(*current).values(driver=driver))


def record_report(
    database: Database,
    storage: Storage,
    organization_id: str | None,
    project_id: str,
    job_id: str,
    payload: CompletionPayload,
    reader: FileReader | None = None,
) -> State:
    """Apply a report and return the state after it. Reports of an older attempt or after the end change nothing.

    COMPLETED is one transaction: the state, the slot, the dataset's version and its pointer. `organization_id` is None
    for a report that the execution's own token signed. Raises NotFound for an unknown execution, BadInput for a jobId
    that is not the path's.
    """
    files = _list_files(database, storage, organization_id, payload)
    foreign = _describe_foreign(database, storage, organization_id, payload, reader, files) if reader else None
    with database.write() as session:
        if payload.status == "COMPLETED" and is_storable(payload.execution_id):
            # before the project, as everywhere: publishing chooses names within the organization
            owner = session.scalar(select(Execution.organization_id).where(Execution.id == payload.execution_id))
            if owner is not None:
                lock_organization(session, owner)
        execution = _lock_execution(session, payload.execution_id, organization_id)
        if (execution.project_id, execution.job_id) != (project_id, job_id):
            raise _make_not_found()
        if payload.job_id not in (None, "", job_id):
            raise BadInput("'jobId' names another job than the path.", path="jobId")
        before = State(execution.state)
        if not before.terminal and _is_current(execution, payload):
            _apply(session, storage, execution, payload, files, foreign)
        state = State(execution.state)
    if state is State.COMPLETED and state is not before:
        delete_checkpoints(storage, execution)
    return state


def fail(
    database: Database,
    execution_id: str,
    sentence: str,
    attempt: int | None = None,
    code: FailureCode = FailureCode.PIPELINE,
) -> State:
    """End the current attempt as failed, unless the execution has ended already or another attempt is current.

    The execution is FAILED then, or waits for its next attempt.
    """
    with database.write() as session:
        execution = _lock_execution(session, execution_id)
        fail_attempt(session, execution, code, *_match_attempt(attempt), error_message=sentence)
        return State(execution.state)


def cancel(
    database: Database, organization_id: str, execution_id: str, sentence: str, attempt: int | None = None
) -> State:
    """End the execution as CANCELLED, unless it has ended already or another attempt is current.

    Its Dagster run notices that, stops the driver and frees the slot.
    """
    with database.write() as session:
        execution = _lock_execution(session, execution_id, organization_id)
        message = f"{sentence} {_describe_running_step(execution)}".strip()
        values = {"error_message": message, "error_code": FailureCode.CANCELLED}
        move(session, execution, Trigger.CANCEL, *_match_attempt(attempt), **values)
        return State(execution.state)


def release_cancelled(database: Database, execution_id: str, attempt: int) -> None:
    """Free the slot that a cancelled attempt has held until its driver was gone."""
    with database.write() as session:
        try:
            execution = _lock_execution(session, execution_id)
        except NotFound:  # it was deleted, and its slot freed
            return
        release_slot(session, execution, Execution.state == State.CANCELLED, Execution.attempt == attempt)


def _find_completed(database: Database, organization_id: str | None, payload: CompletionPayload) -> Execution | None:
    """Return the execution that a report completes, if it has not ended."""
    if payload.status != "COMPLETED" or not is_storable(payload.execution_id):
        return None
    with database.read() as session:
        execution = session.get(Execution, payload.execution_id)
    if execution is None or organization_id not in (None, execution.organization_id):
        return None
    return None if State(execution.state).terminal else execution


def _list_files(
    database: Database, storage: Storage, organization_id: str | None, payload: CompletionPayload
) -> AttemptFiles:
    """Return the files that the attempt has written, before the transaction: listing them takes time."""
    execution = _find_completed(database, organization_id, payload)
    return list_attempt_files(storage, execution, payload) if execution is not None else {}


def _describe_foreign(
    database: Database,
    storage: Storage,
    organization_id: str | None,
    payload: CompletionPayload,
    reader: FileReader,
    files: AttemptFiles,
) -> NewVersion | None:
    """Return the described output of another Spark, before the transaction: reading files takes time."""
    execution = _find_completed(database, organization_id, payload)
    if execution is None or not payload.output_dataset_path:
        return None
    if is_output_of_attempt(storage, execution, payload, files):
        return None
    return describe_foreign_output(storage, reader, execution.organization_id, payload)


def _apply(
    session: Session,
    storage: Storage,
    execution: Execution,
    report: CompletionPayload,
    files: AttemptFiles,
    foreign: NewVersion | None = None,
) -> None:
    same_attempt = Execution.attempt == execution.attempt
    payload, warnings = report.drop_impossible(now())
    path = payload.output_dataset_path if payload.status == "COMPLETED" else None
    publishes = bool(path) and (foreign is not None or is_output_of_attempt(storage, execution, payload, files))
    if path and not publishes:
        warnings.append(
            f"Nothing was published: '{path[:200]}' is not the output folder of the attempt or another one in the "
            "organization's storage, or has no files."
        )
    values = _get_reported_values(execution, payload, warnings)
    for name in ("changes", "figures"):
        if measured := getattr(payload.report, name):
            values["metrics"][name] = asdict(measured)
    if path:
        values["metrics"] |= payload.get_output_texts(foreign)
    if payload.status == "RUNNING":
        started = {"started_at": payload.started_at or now(), "heartbeat_at": now()}
        if not move(session, execution, Trigger.START, same_attempt, **values, **started):
            _record_heartbeat(session, execution, values)
        return
    completed_at = payload.completed_at or now()
    duration = None if payload.duration_seconds is None else timedelta(seconds=payload.duration_seconds)
    values |= {
        "started_at": execution.started_at or payload.started_at or (duration and completed_at - duration),
        "completed_at": completed_at,
    }
    if payload.status == "FAILED":
        message = payload.error_message or NO_MESSAGE
        fail_attempt(session, execution, _get_code(payload), same_attempt, **values, error_message=message)
    elif conflict := find_conflict(session, execution, payload, publishes and foreign is None):
        fail_attempt(session, execution, FailureCode.CONFLICT, same_attempt, **values, error_message=conflict)
    elif move(session, execution, Trigger.COMPLETE, same_attempt, **values):
        if not execution.publishes:
            if publishes and foreign is None:
                keep_trial(session, execution, payload, files)
            return
        job = session.get_one(Job, execution.job_id)
        job.stale_at = compute_stale_at(job.freshness, execution.completed_at or now())
        if publishes:
            publish_output(session, execution, payload, files, foreign)
        elif payload.report.changes:
            name_current(session, execution)
        if publishes or not path:
            publish_known_pages(session, execution, payload)
            publish_rejected(session, execution, payload, files)
        publish_saves(session, execution, payload, files)


def _is_current(execution: Execution, payload: CompletionPayload) -> bool:
    """Return whether the report is about the current attempt; one that waits to begin has no reports."""
    if payload.attempt is None:
        return execution.retry_at is None
    return payload.attempt == execution.attempt


def _get_code(payload: CompletionPayload) -> FailureCode:
    return next((each for each in REPORTED if each == payload.error_code), FailureCode.PIPELINE)


def _describe_running_step(execution: Execution) -> str:
    """Return a sentence with the step that the driver last reported as running, empty without a report."""
    stages = Progress.from_report(execution.progress).stages
    running = next((each.key for each in stages if each.state == State.RUNNING), None)
    step = next((each for each in execution.steps if each.key == running), None)
    if step is None:
        return ""
    return f"It had reached {step.name} ({f'line {step.line}' if step.line else f'pass {step.pass_number}'})."


def _record_heartbeat(session: Session, execution: Execution, values: dict[str, object]) -> None:
    running = (Execution.id == execution.id, Execution.state == State.RUNNING, Execution.attempt == execution.attempt)
    progress = execution.progress
    if execute_update(
        session, update(Execution).where(*running).values(heartbeat_at=now(), updated_at=now(), **values)
    ):
        session.refresh(execution)
        if execution.progress != progress:
            record_progress(session, execution)


def _get_reported_values(execution: Execution, payload: CompletionPayload, warnings: Sequence[str]) -> dict[str, Any]:
    """Return the columns that every report may set; a field that it lacks keeps its value."""
    metrics = execution.metrics | payload.get_metrics()
    if warnings:
        log.warning("parts of a report were ignored", execution_id=execution.id, warnings=warnings)
        metrics["warnings"] = list(dict.fromkeys([*metrics.get("warnings", ()), *warnings]))[:MAX_WARNINGS]
    values: dict[str, Any] = {"metrics": metrics}
    if payload.progress is not None:
        values["progress"] = payload.progress
    if payload.spark_ui_url is not None:
        values["spark_ui_url"] = payload.spark_ui_url
    return values


def _match_attempt(attempt: int | None) -> Sequence[ColumnElement[bool]]:
    return () if attempt is None else (Execution.attempt == attempt,)


def _lock_execution(session: Session, execution_id: str, organization_id: str | None = None) -> Execution:
    """Return the execution, after locking its project and itself; raise NotFound."""
    if not is_storable(execution_id):
        raise _make_not_found()
    query = select(Execution).where(Execution.id == execution_id)
    if organization_id is not None:
        query = query.where(Execution.organization_id == organization_id)
    project_id = session.scalar(query.with_only_columns(Execution.project_id))
    if project_id is not None:
        lock_project(session, project_id)
    execution = session.scalar(query.with_for_update())
    if execution is None:
        raise _make_not_found()
    return execution


def _make_not_found() -> NotFound:
    return NotFound("There is no execution with this id.")
