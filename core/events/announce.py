"""Announcing: what happens to an execution is written down in the transaction in which it happens."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from core.executions.states import State
from core.infra.database import changed
from core.infra.validation import iso
from core.tables import Delivery, Execution, ExecutionEvent, Webhook, now

STATE, PROGRESS = "state", "progress"
PREFIX = "execution."
TYPES = tuple(PREFIX + state.lower() for state in State)


def announce(session: Session, execution: Execution) -> None:
    """Notes the execution's new state, and a delivery to each webhook of the project that wants to know.

    The caller holds the project, so that the ids of its events ascend in the order of the commits.
    """
    if State(execution.state).terminal and execution.progress:
        announce_progress(session, execution)
    data = snapshot(execution)
    _add(session, execution, STATE, data)
    kind = PREFIX + execution.state.lower()
    for webhook in _listening(session, execution.project_id, kind):
        session.add(Delivery(webhook_id=webhook, type=kind, payload=payload(kind, data, now())))
    session.flush()


def announce_progress(session: Session, execution: Execution) -> None:
    """Notes how far a running execution has come, in place of what was noted before; the project is held here too."""
    this = (ExecutionEvent.execution_id == execution.id, ExecutionEvent.kind == PROGRESS)
    changed(session, delete(ExecutionEvent).where(*this))
    _add(session, execution, PROGRESS, snapshot(execution) | {"progress": execution.progress})
    session.flush()


def snapshot(execution: Execution) -> dict[str, Any]:
    """An execution as its events show it."""
    return {
        "executionId": execution.id,
        "jobId": execution.job_id,
        "projectId": execution.project_id,
        "taskId": None if execution.task_id is None else str(execution.task_id),
        "jobName": execution.job_name,
        "attempt": execution.attempt,
        "status": State(execution.state).shown,
        "state": execution.state,
        "startedAt": iso(execution.started_at),
        "completedAt": iso(execution.completed_at),
        "errorMessage": execution.error_message,
    }


def payload(kind: str, data: Mapping[str, Any], at: datetime) -> dict[str, Any]:
    """The body of a webhook, as Standard Webhooks has it."""
    return {"type": kind, "timestamp": at.isoformat(), "data": dict(data)}


def _add(session: Session, execution: Execution, kind: str, data: dict[str, Any]) -> None:
    event = ExecutionEvent(project_id=execution.project_id, execution_id=execution.id, kind=kind, data=data)
    session.add(event)


def _listening(session: Session, project_id: str, kind: str) -> list[str]:
    webhooks = session.execute(
        select(Webhook.id, Webhook.events).where(Webhook.project_id == project_id, Webhook.enabled)
    )
    return [webhook_id for webhook_id, events in webhooks.tuples() if not events or kind in events]
