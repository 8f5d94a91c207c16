"""The one way in which RUNNING, COMPLETED, FAILED and a cancellation reach an execution, whoever reports them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from core.errors import NotFound
from core.events.announce import announce_progress
from core.executions.payload import CompletionPayload
from core.executions.publish import publish_output, publish_saves
from core.executions.slots import hold_project
from core.executions.states import Event, State
from core.executions.transitions import move
from core.infra.database import Database, changed
from core.infra.repository import lock_organization
from core.infra.validation import storable
from core.tables import Execution, now

NO_MESSAGE = "The execution failed without saying why; its log may tell more."


def record(
    database: Database, organization_id: str | None, project_id: str, job_id: str, payload: CompletionPayload
) -> State:
    """Applies a report and returns the state after it; one of an older attempt or after the end changes nothing.

    COMPLETED is one transaction: the state, the slot, the dataset's version and its pointer. `organization_id` is None
    for a report that the execution's own token signed. Raises NotFound for an unknown execution.
    """
    with database.write() as session:
        if payload.status == "COMPLETED" and storable(payload.execution_id):
            _lock_owner(session, payload.execution_id)
        execution = _find(session, payload.execution_id, organization_id)
        if (execution.project_id, execution.job_id) != (project_id, job_id):
            raise _unknown()
        if payload.attempt in (None, execution.attempt):
            _apply(session, execution, payload)
        return State(execution.state)


def fail(database: Database, execution_id: str, sentence: str, attempt: int | None = None) -> State:
    """Ends the execution as FAILED with this sentence, unless it has ended already or another attempt is on."""
    with database.write() as session:
        execution = _find(session, execution_id)
        move(session, execution, Event.FAIL, *_only(attempt), error_message=sentence)
        return State(execution.state)


def cancel(
    database: Database, organization_id: str, execution_id: str, sentence: str, attempt: int | None = None
) -> State:
    """Ends the execution as CANCELLED, unless it has ended already or another attempt is on.

    Its driver is stopped by who runs it.
    """
    with database.write() as session:
        execution = _find(session, execution_id, organization_id)
        move(session, execution, Event.CANCEL, *_only(attempt), error_message=sentence)
        return State(execution.state)


def _only(attempt: int | None) -> Sequence[ColumnElement[bool]]:
    return () if attempt is None else (Execution.attempt == attempt,)


def _apply(session: Session, execution: Execution, payload: CompletionPayload) -> None:
    if payload.status == "RUNNING":
        _running(session, execution, payload)
    elif payload.status == "COMPLETED":
        _completed(session, execution, payload)
    else:
        message = payload.error_message or NO_MESSAGE
        _move(session, execution, Event.FAIL, payload, **_ended(execution, payload), error_message=message)


def _running(session: Session, execution: Execution, payload: CompletionPayload) -> None:
    started = payload.started_at or now()
    if _move(session, execution, Event.START, payload, started_at=started, heartbeat_at=now()):
        return
    alive = (Execution.id == execution.id, Execution.state == State.RUNNING, Execution.attempt == execution.attempt)
    before, values = execution.progress, _reported(execution, payload)
    if changed(session, update(Execution).where(*alive).values(heartbeat_at=now(), updated_at=now(), **values)):
        session.refresh(execution)
        if execution.progress != before:
            announce_progress(session, execution)


def _completed(session: Session, execution: Execution, payload: CompletionPayload) -> None:
    if _move(session, execution, Event.COMPLETE, payload, **_ended(execution, payload)):
        publish_output(session, execution, payload)
        publish_saves(session, execution, payload)


def _move(session: Session, execution: Execution, event: Event, payload: CompletionPayload, **values: object) -> bool:
    same_attempt = Execution.attempt == execution.attempt
    return move(session, execution, event, same_attempt, **_reported(execution, payload), **values)


def _ended(execution: Execution, payload: CompletionPayload) -> dict[str, object]:
    completed = payload.completed_at or now()
    return {"started_at": execution.started_at or payload.started_at, "completed_at": completed}


def _reported(execution: Execution, payload: CompletionPayload) -> dict[str, object]:
    """What every report may carry; what it leaves out keeps its value."""
    values: dict[str, object] = {"metrics": execution.metrics | payload.measured()}
    if payload.progress is not None:
        values["progress"] = payload.progress
    if payload.spark_ui_url is not None:
        values["spark_ui_url"] = payload.spark_ui_url
    return values


def _lock_owner(session: Session, execution_id: str) -> None:
    """Before the project, as everywhere: publishing chooses names in the organization."""
    owner = session.scalar(select(Execution.organization_id).where(Execution.id == execution_id))
    if owner is not None:
        lock_organization(session, owner)


def _find(session: Session, execution_id: str, organization_id: str | None = None) -> Execution:
    if not storable(execution_id):
        raise _unknown()
    query = select(Execution).where(Execution.id == execution_id)
    if organization_id is not None:
        query = query.where(Execution.organization_id == organization_id)
    project_id = session.scalar(query.with_only_columns(Execution.project_id))
    if project_id is not None:
        hold_project(session, project_id)
    execution = session.scalar(query.with_for_update())
    if execution is None:
        raise _unknown()
    return execution


def _unknown() -> NotFound:
    return NotFound("There is no execution with this id.")
