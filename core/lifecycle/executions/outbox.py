"""The outbox: launches written with the execution's transaction and delivered at least once.

A launch may be delivered twice; the claim of the attempt (core.lifecycle.executions) makes it start once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Select, delete, select, update
from sqlalchemy.orm import Session

from core.infra.database import execute_update
from core.infra.instances import get_instance_id
from core.infra.turns import order_by_turns
from core.tables import Execution, OutboxMessage, now
from core.tables.states import State

TERMINAL = [state for state in State if state.terminal]
LAUNCHES_AT_ONCE = 25  # few: an organization that comes later waits for them


def fetch_due(session: Session, at: datetime, limit: int = LAUNCHES_AT_ONCE) -> Sequence[OutboxMessage]:
    """Return the first launches that are due: organizations and their projects take turns, oldest first within one.

    On PostgreSQL they are locked, and those that another launcher has locked are left out.
    """
    due = _select_pending().where(OutboxMessage.processed_at.is_(None), OutboxMessage.available_at <= at)
    owners = due.with_only_columns(OutboxMessage.id, Execution.organization_id, Execution.project_id)
    waiting = session.execute(owners.order_by(OutboxMessage.id)).all()
    ids = [row.id for row in order_by_turns(waiting, lambda row: (row.organization_id, row.project_id))[:limit]]
    chosen = select(OutboxMessage).where(OutboxMessage.id.in_(ids), OutboxMessage.processed_at.is_(None))
    messages = session.scalars(chosen.with_for_update(skip_locked=True)).all()
    return sorted(messages, key=lambda message: ids.index(message.id))


def has_unlaunched(session: Session) -> bool:
    """Return whether there are launches that are due, now or later."""
    query = _select_pending().where(OutboxMessage.processed_at.is_(None))
    return session.scalar(query.with_only_columns(OutboxMessage.id).limit(1)) is not None


def mark_launched(session: Session, message: OutboxMessage, run_id: str) -> None:
    """Store the id of the run that this instance is about to start; where no run claims the attempt, it starts another.

    Another instance does so when this one is lost.
    """
    instance = get_instance_id(session.info["settings"].data)
    _update(session, message, processed_at=now(), dagster_run_id=run_id, instance_id=instance)


def postpone(session: Session, message: OutboxMessage, delay: timedelta) -> None:
    """Make the launch due after a delay, also one that was made and whose run is gone."""
    _update(session, message, processed_at=None, dagster_run_id=None, instance_id=None, available_at=now() + delay)


def fetch_unclaimed(session: Session, before: datetime) -> Sequence[OutboxMessage]:
    """Return the launches made before this time whose attempt no run has claimed."""
    unclaimed = _select_pending().where(Execution.claimed_at.is_(None), OutboxMessage.processed_at < before)
    return session.scalars(unclaimed.order_by(OutboxMessage.id)).all()


def delete_old_launches(session: Session, before: datetime, limit: int | None) -> int:
    """Delete launches made before a time whose execution has ended, at most `limit`; return their number."""
    ended = select(Execution.id).where(Execution.id == OutboxMessage.execution_id, Execution.state.in_(TERMINAL))
    old = select(OutboxMessage.id).where(OutboxMessage.created_at < before, ended.exists()).limit(limit)
    return execute_update(session, delete(OutboxMessage).where(OutboxMessage.id.in_(old)))


def _select_pending() -> Select[tuple[OutboxMessage]]:
    """Select messages for the current attempt of executions that have not started."""
    query = select(OutboxMessage).join(Execution, Execution.id == OutboxMessage.execution_id)
    return query.where(Execution.state == State.PENDING, Execution.attempt == OutboxMessage.attempt)


def _update(session: Session, message: OutboxMessage, **values: object) -> None:
    """Update by statement, because the row may not exist any more: its project may have been deleted."""
    statement = update(OutboxMessage).where(OutboxMessage.id == message.id)
    execute_update(session, statement.values(tries=OutboxMessage.tries + 1, **values))
