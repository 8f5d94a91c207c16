"""Claiming: of all runs that were launched for one attempt, exactly one goes on."""

from __future__ import annotations

from sqlalchemy import update

from core.executions.states import State
from core.infra.database import Database, changed
from core.tables import Execution, now


def claim(database: Database, execution_id: str, attempt: int, run_id: str) -> Execution | None:
    """Takes the attempt for this run; None when another run has it, a newer attempt exists, or it has ended."""
    free = (
        Execution.id == execution_id,
        Execution.attempt == attempt,
        Execution.state == State.PENDING,
        Execution.claimed_at.is_(None),
    )
    with database.write() as session:
        at = now()
        taken = update(Execution).where(*free).values(run_id=run_id, claimed_at=at, heartbeat_at=at, updated_at=at)
        return session.get(Execution, execution_id) if changed(session, taken) else None
