"""The outbox: launches that follow a commit, delivered at least once; the claim makes them happen once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Select, select, update
from sqlalchemy.orm import Session

from core.executions.states import State
from core.infra.database import changed
from core.tables import Execution, OutboxMessage, now


def due(session: Session, now: datetime, limit: int = 100) -> Sequence[OutboxMessage]:
    """Launches to make now, oldest first."""
    waiting = _pending().where(OutboxMessage.processed_at.is_(None), OutboxMessage.available_at <= now)
    return session.scalars(waiting.order_by(OutboxMessage.id).limit(limit)).all()


def launched(session: Session, message: OutboxMessage, dagster_run_id: str) -> None:
    """Notes that the launch was made."""
    _set(session, message, processed_at=now(), dagster_run_id=dagster_run_id)


def postponed(session: Session, message: OutboxMessage, delay: timedelta) -> None:
    """Puts off a launch that could not be made, or makes one anew whose run is gone."""
    _set(session, message, processed_at=None, dagster_run_id=None, available_at=now() + delay)


def orphaned(session: Session, before: datetime) -> Sequence[OutboxMessage]:
    """Launches made before this time that no run has claimed: when their run is gone, `postponed` makes them anew."""
    unclaimed = _pending().where(Execution.claimed_at.is_(None), OutboxMessage.processed_at < before)
    return session.scalars(unclaimed.order_by(OutboxMessage.id)).all()


def _pending() -> Select[tuple[OutboxMessage]]:
    """Messages for the current attempt of an execution that has not started."""
    query = select(OutboxMessage).join(Execution, Execution.id == OutboxMessage.execution_id)
    return query.where(Execution.state == State.PENDING, Execution.attempt == OutboxMessage.attempt)


def _set(session: Session, message: OutboxMessage, **values: object) -> None:
    """An UPDATE, so that a message whose project was deleted meanwhile is no error."""
    this = update(OutboxMessage).where(OutboxMessage.id == message.id)
    changed(session, this.values(tries=OutboxMessage.tries + 1, **values))
