"""The reconciler: an execution whose driver fell silent has lost it, and fails."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import select

from core.executions.states import Event, sources
from core.executions.transitions import move
from core.infra.database import Database
from core.infra.settings import Settings
from core.tables import Execution

SENTENCE = "The execution lost its driver: nothing was heard from it for {seconds:.0f} seconds. Execute the job again."


def reconcile(database: Database, settings: Settings, now: datetime, up_since: datetime) -> list[str]:
    """Fails every claimed execution that is silent for too long, and returns their ids.

    Silence counts only from `up_since` on: while the service was down, nobody could hear a heartbeat.
    """
    limit = now - timedelta(seconds=settings.lost_after_seconds)
    if up_since > limit:
        return []
    sentence = SENTENCE.format(seconds=settings.lost_after_seconds)
    return [execution_id for execution_id in _silent(database, limit) if _lost(database, execution_id, limit, sentence)]


def _silent(database: Database, limit: datetime) -> Sequence[str]:
    states = Execution.state.in_(sources(Event.FAIL))
    with database.read() as session:
        query = select(Execution.id).where(states, Execution.claimed_at.is_not(None), Execution.heartbeat_at < limit)
        return session.scalars(query.order_by(Execution.id)).all()


def _lost(database: Database, execution_id: str, limit: datetime, sentence: str) -> bool:
    """Fails it unless a heartbeat came in meanwhile."""
    with database.write() as session:
        execution = session.get(Execution, execution_id)
        still = Execution.heartbeat_at < limit
        return execution is not None and move(session, execution, Event.FAIL, still, error_message=sentence)
