"""Reading events: those of one execution, or of all executions of a project, after the last one seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import Identity
from core.definitions.projects.repository import ProjectRepository
from core.infra.database import Database
from core.lifecycle.executions.events import STATE, build_event_data
from core.lifecycle.executions.repository import ExecutionRepository
from core.tables import ExecutionEvent
from core.tables.states import State

BATCH = 200


@dataclass(frozen=True, slots=True)
class Event:
    """One event; ids ascend within a project."""

    id: int
    kind: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events in order. With `more`, others follow at once; with `ended`, the stream is over."""

    events: Sequence[Event]
    more: bool
    ended: bool


def list_of_execution(
    database: Database, caller: Identity, project_id: str, job_id: str, execution_id: str, after: int | None
) -> EventBatch:
    """Return the execution's events after this id; without an id all of them, at least its state now.

    The state is read before the events: all events up to an end that is seen are there, and if a retry came in
    between, its events show that the execution has not ended.
    """
    with database.read() as session:
        executions = ExecutionRepository(session, caller.organization_id)
        execution = executions.get(project_id, job_id, execution_id)
        query = select(ExecutionEvent).where(ExecutionEvent.execution_id == execution.id)
        events = load_events(session, query, after or 0)
    more = len(events) == BATCH
    if after is None and not events:  # the execution is older than the events that are stored
        events = [Event(0, STATE, build_event_data(execution))]
    state = State(events[-1].data["state"] if events else execution.state)
    return EventBatch(events, more, ended=not more and state.terminal)


def list_of_project(database: Database, caller: Identity, project_id: str, after: int | None) -> EventBatch:
    """Return the project's events after this id; without an id an empty batch."""
    with database.read() as session:
        project = ProjectRepository(session, caller.organization_id).get(project_id)
        query = select(ExecutionEvent).where(ExecutionEvent.project_id == project.id)
        events = [] if after is None else load_events(session, query, after)
    return EventBatch(events, more=len(events) == BATCH, ended=False)


def get_last_id_of_execution(
    database: Database, caller: Identity, project_id: str, job_id: str, execution_id: str
) -> int:
    """Return the id of the execution's last event, 0 before the first."""
    with database.read() as session:
        execution = ExecutionRepository(session, caller.organization_id).get(project_id, job_id, execution_id)
        last = select(func.max(ExecutionEvent.id)).where(ExecutionEvent.execution_id == execution.id)
        return session.scalar(last) or 0


def get_last_id(database: Database, caller: Identity, project_id: str) -> int:
    """Return the id of the project's last event, 0 before the first."""
    with database.read() as session:
        project = ProjectRepository(session, caller.organization_id).get(project_id)
        last = select(func.max(ExecutionEvent.id)).where(ExecutionEvent.project_id == project.id)
        return session.scalar(last) or 0


def load_events(session: Session, query: Select[tuple[ExecutionEvent]], after: int) -> list[Event]:
    """Return the next batch of the query's events after this id."""
    following = query.where(ExecutionEvent.id > after).order_by(ExecutionEvent.id).limit(BATCH)
    return [Event(event.id, event.kind, event.data) for event in session.scalars(following)]
