"""The attempts of an execution: earlier ones have a row each, the current one is in the execution itself.

Each has a folder for checkpoints, from which a retry resumes; the driver writes and checks them.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.infra.storage.protocol import Storage, checkpoints_key
from core.tables import Execution, ExecutionAttempt
from core.tables.states import State

INITIAL_VALUES = {
    "run_id": None,
    "claimed_at": None,
    "heartbeat_at": None,
    "started_at": None,
    "completed_at": None,
    "error_message": None,
    "error_code": None,
    "retry_at": None,
    "driver": None,
    "spark_ui_url": None,
    "metrics": {},
    "progress": {},
}


def build_attempt(execution: Execution, state: State) -> ExecutionAttempt:
    """Return the current attempt as a row that is not stored yet."""
    additional = execution.metrics.get("additional") or {}
    resumed_after = additional.get("resumedAfter")
    return ExecutionAttempt(
        execution_id=execution.id,
        attempt=execution.attempt,
        state=state,
        run_id=execution.run_id,
        started_at=execution.started_at,
        completed_at=execution.completed_at,
        error_message=execution.error_message,
        error_code=execution.error_code,
        resumed_after=resumed_after if isinstance(resumed_after, str) else None,
    )


def list_attempts(session: Session, execution: Execution) -> Sequence[ExecutionAttempt]:
    """Return the attempts in order, the current one last."""
    query = select(ExecutionAttempt).where(ExecutionAttempt.execution_id == execution.id)
    earlier = session.scalars(query.order_by(ExecutionAttempt.attempt)).all()
    return [*earlier, build_attempt(execution, State(execution.state))]


def get_end(session: Session, execution: Execution, attempt: int) -> tuple[State, str]:
    """Return how an attempt has ended or where it is, and the message that belongs to it."""
    if attempt == execution.attempt:
        return State(execution.state), execution.error_message or ""
    ended = session.get(ExecutionAttempt, (execution.id, attempt))
    if ended is None:  # it is older than the table of attempts
        return State.CANCELLED, "The execution was retried: another attempt is running."
    return State(ended.state), ended.error_message or ""


def list_checkpoint_folders(execution: Execution) -> Sequence[str]:
    """Return the keys of the folders for checkpoints, that of the current attempt first."""
    attempts = range(execution.attempt, 0, -1)
    return [checkpoints_key(execution.organization_id, execution.id, attempt) for attempt in attempts]


def delete_checkpoints(storage: Storage, execution: Execution) -> None:
    """Delete the checkpoints of all attempts."""
    for folder in list_checkpoint_folders(execution):
        for file in [*storage.list(folder)]:
            storage.delete(file.key)
