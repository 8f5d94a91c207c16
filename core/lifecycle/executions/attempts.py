"""The attempts of an execution: earlier ones have a row each, the current one is in the execution itself.

Each has a folder for checkpoints, from which a retry resumes; the driver writes and checks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.infra.storage.protocol import Storage, checkpoints_key
from core.tables import Execution, ExecutionAttempt, now
from core.tables.states import State
from pipelines.contract.progress import Progress

INITIAL_VALUES = {
    "run_id": None,
    "instance_id": None,
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


def get_values_of_next(execution: Execution) -> dict[str, Any]:
    """Return the columns of an execution whose next attempt begins.

    After a failed check it begins anew: it takes neither the pages nor the checkpoints of the attempts before, which
    would give the rows that the check has refused.
    """
    values: dict[str, Any] = {**INITIAL_VALUES, "attempt": execution.attempt + 1}
    if any(each.fails for each in Progress.from_report(execution.progress).checks):
        values |= {"first_attempt": execution.attempt + 1, "began_at": now()}
    return values


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
    """Return the keys of the folders with checkpoints that the current attempt may use, its own first."""
    return _list_folders(execution, execution.first_attempt)


def _list_folders(execution: Execution, first: int) -> Sequence[str]:
    attempts = range(execution.attempt, first - 1, -1)
    return [checkpoints_key(execution.organization_id, execution.id, attempt) for attempt in attempts]


def delete_checkpoints(storage: Storage, execution: Execution) -> None:
    """Delete the checkpoints of all attempts."""
    for folder in _list_folders(execution, 1):
        for file in [*storage.list(folder)]:
            storage.delete(file.key)
