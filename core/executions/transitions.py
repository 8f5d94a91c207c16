"""The one place where an execution changes its state, with the slot that it takes or gives back and what is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from core.events.announce import announce
from core.executions.slots import free_slot, hold_project, take_slot
from core.executions.states import Event, State, next_state, sources
from core.infra.database import changed
from core.metrics.bills import store_bill
from core.tables import Execution, OutboxMessage, now
from core.tables.executions import QUEUED


def move(session: Session, execution: Execution, event: Event, *conditions: ColumnElement[bool], **values: Any) -> bool:
    """Applies the event where the state table and the conditions allow it; False when it changes nothing."""
    hold_project(session, execution.project_id)
    found = session.scalar(select(Execution.state).where(Execution.id == execution.id).with_for_update())
    state = next_state(State(found), event) if found else None
    if found is None or state is None:
        return False
    if state.terminal:
        values.setdefault("completed_at", now())
        values["sealed_environment"] = None  # nobody needs its secrets any more
    same = (Execution.id == execution.id, Execution.state == found, *conditions)
    if not changed(session, update(Execution).where(*same).values(state=state, updated_at=now(), **values)):
        return False
    session.refresh(execution)
    announce(session, execution)
    if state.terminal:
        store_bill(session, execution)
        _end(session, execution, State(found))
    return True


def cancel_all(session: Session, which: ColumnElement[bool], sentence: str) -> None:
    """Cancels whatever of these executions has not ended."""
    for execution in _unended(session, which):
        move(session, execution, Event.CANCEL, error_message=sentence)


def launch(session: Session, execution: Execution) -> None:
    """Has the launcher start the execution's current attempt once this transaction is committed."""
    session.add(OutboxMessage(execution_id=execution.id, attempt=execution.attempt))


def _unended(session: Session, which: ColumnElement[bool]) -> Sequence[Execution]:
    """The newest first, so that what waits is not started just before it is cancelled."""
    query = select(Execution).where(which, Execution.state.in_(sources(Event.CANCEL)))
    return session.scalars(query.order_by(Execution.id.desc())).all()


def _end(session: Session, execution: Execution, left: State) -> None:
    """Withdraws a launch that is still to come, and hands the slot on; runs once for each attempt."""
    waiting = (OutboxMessage.execution_id == execution.id, OutboxMessage.processed_at.is_(None))
    changed(session, update(OutboxMessage).where(*waiting).values(processed_at=now()))
    if left.holds_slot:
        free_slot(session, execution.project_id)
        _admit(session, execution.project_id)


def _admit(session: Session, project_id: str) -> None:
    """Starts the first execution that waits in the project, if a slot is free."""
    waiting = select(Execution).where(Execution.project_id == project_id, QUEUED).order_by(Execution.id).limit(1)
    execution = session.scalar(waiting)
    if execution is not None and take_slot(session, project_id) and move(session, execution, Event.ADMIT):
        launch(session, execution)
