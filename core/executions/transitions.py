"""The one place where an execution changes its state: a conditional UPDATE, with the slot that an end gives back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from core.database import changed
from core.executions.states import Event, sources, target
from core.tables import Execution, OutboxMessage, Project, now


def move(session: Session, execution: Execution, event: Event, *conditions: ColumnElement[bool], **values: Any) -> bool:
    """Applies the event where the state table and the conditions allow it; False when it changes nothing."""
    state = target(event)
    if state.terminal:
        values.setdefault("completed_at", now())
        values["sealed_environment"] = None  # nobody needs its secrets any more
    allowed = (Execution.id == execution.id, Execution.state.in_(sources(event)), *conditions)
    if not changed(session, update(Execution).where(*allowed).values(state=state, updated_at=now(), **values)):
        return False
    if state.terminal:
        _end(session, execution)
    session.refresh(execution)
    return True


def cancel_all(session: Session, which: ColumnElement[bool], sentence: str) -> None:
    """Cancels whatever of these executions has not ended."""
    for execution in _unended(session, which):
        move(session, execution, Event.CANCEL, error_message=sentence)


def _unended(session: Session, which: ColumnElement[bool]) -> Sequence[Execution]:
    query = select(Execution).where(which, Execution.state.in_(sources(Event.CANCEL)))
    return session.scalars(query.order_by(Execution.id)).all()


def _end(session: Session, execution: Execution) -> None:
    """Frees the slot and withdraws a launch that is still to come; runs once, as terminal states absorb."""
    slots = update(Project).where(Project.id == execution.project_id)
    changed(session, slots.values(active_executions=Project.active_executions - 1, updated_at=Project.updated_at))
    waiting = (OutboxMessage.execution_id == execution.id, OutboxMessage.processed_at.is_(None))
    changed(session, update(OutboxMessage).where(*waiting).values(processed_at=now()))
