"""Recording of events, in the transaction that changes the execution or the job.

The caller has locked the project, so the ids of its events ascend in the order of the commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from core.infra.database import execute_update
from core.infra.validation import format_optional_time, format_time
from core.tables import Delivery, Execution, ExecutionEvent, Job, Webhook, now
from core.tables.states import State

STATE, PROGRESS, STALE = "state", "progress", "stale"
PREFIX = "execution."
DATASET_STALE = "dataset.stale"
TYPES = (*(PREFIX + state.lower() for state in State), DATASET_STALE)


def record_state(session: Session, execution: Execution) -> None:
    """Record the execution's new state, and deliveries to the webhooks that subscribe to it."""
    if State(execution.state).terminal and execution.progress:
        record_progress(session, execution)
    data = build_event_data(execution)
    _add(session, execution, STATE, data)
    _add_deliveries(session, execution.project_id, execution.id, PREFIX + execution.state.lower(), data)
    session.flush()


def record_stale(session: Session, job: Job, since: datetime) -> None:
    """Record that the job's table is older than its freshness allows, since that time."""
    data = {
        "jobId": job.id,
        "projectId": job.project_id,
        "jobName": job.name,
        "datasetId": job.output_dataset_id,
        "maxAge": job.freshness["maxAge"],
        "staleSince": format_time(since),
    }
    session.add(ExecutionEvent(project_id=job.project_id, kind=STALE, data=data))
    _add_deliveries(session, job.project_id, None, DATASET_STALE, data)
    session.flush()


def record_progress(session: Session, execution: Execution) -> None:
    """Record the progress of a running execution, in place of its earlier progress event."""
    earlier = (ExecutionEvent.execution_id == execution.id, ExecutionEvent.kind == PROGRESS)
    execute_update(session, delete(ExecutionEvent).where(*earlier))
    _add(session, execution, PROGRESS, build_event_data(execution) | {"progress": execution.progress})
    session.flush()


def build_event_data(execution: Execution) -> dict[str, Any]:
    """Return an execution as its events show it."""
    return {
        "executionId": execution.id,
        "jobId": execution.job_id,
        "projectId": execution.project_id,
        "taskId": None if execution.task_id is None else str(execution.task_id),
        "jobName": execution.job_name,
        "attempt": execution.attempt,
        "status": State(execution.state).public,
        "state": execution.state,
        "startedAt": format_optional_time(execution.started_at),
        "completedAt": format_optional_time(execution.completed_at),
        "errorMessage": execution.error_message,
        "changes": execution.metrics.get("changes"),
    }


def build_payload(kind: str, data: Mapping[str, Any], at: datetime) -> dict[str, Any]:
    """Return the body of a webhook delivery, as Standard Webhooks defines it."""
    return {"type": kind, "timestamp": format_time(at), "data": dict(data)}


def _add_deliveries(
    session: Session, project_id: str, execution_id: str | None, kind: str, data: Mapping[str, Any]
) -> None:
    enabled = (Webhook.project_id == project_id, Webhook.enabled)
    for webhook_id, events in session.execute(select(Webhook.id, Webhook.events).where(*enabled)).tuples():
        if not events or kind in events:
            payload = build_payload(kind, data, now())
            session.add(Delivery(webhook_id=webhook_id, execution_id=execution_id, type=kind, payload=payload))


def _add(session: Session, execution: Execution, kind: str, data: dict[str, Any]) -> None:
    event = ExecutionEvent(project_id=execution.project_id, execution_id=execution.id, kind=kind, data=data)
    session.add(event)
