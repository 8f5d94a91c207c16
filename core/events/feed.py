"""Reading events: what came after the last one that somebody has seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from core.events.announce import STATE, snapshot
from core.executions.queries import Executions
from core.executions.states import State
from core.projects.repository import ProjectRepository
from core.tables import ExecutionEvent

BATCH = 200


@dataclass(frozen=True, slots=True)
class Happening:
    """One event; ids ascend within a project."""

    id: int
    kind: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Batch:
    """Events in order; `more` says that others follow at once, `ended` that none will follow."""

    events: Sequence[Happening]
    more: bool
    ended: bool


def of_execution(
    session: Session, organization_id: str, project_id: str, job_id: str, execution_id: str, after: int | None
) -> Batch:
    """What the execution went through after this event, or all that is known of it, at least its state now.

    Raises NotFound. The state is read before the events: those of an end that was seen are there, and those of a retry
    that came in between, after which the end is none.
    """
    execution = Executions(session, organization_id).get(project_id, job_id, execution_id)
    query = select(ExecutionEvent).where(ExecutionEvent.execution_id == execution.id)
    events = _read(session, query, after or 0)
    more = len(events) == BATCH
    if after is None and not events:  # it is older than the events that are kept
        events = [Happening(0, STATE, snapshot(execution))]
    return Batch(events, more, not more and State(events[-1].data["state"] if events else execution.state).terminal)


def of_project(session: Session, organization_id: str, project_id: str, after: int | None) -> Batch:
    """What the project's executions went through after this event; without one, nothing so far. Raises NotFound."""
    project = ProjectRepository(session, organization_id).get(project_id)
    query = select(ExecutionEvent).where(ExecutionEvent.project_id == project.id)
    events = [] if after is None else _read(session, query, after)
    return Batch(events, len(events) == BATCH, ended=False)


def newest(session: Session, organization_id: str, project_id: str) -> int:
    """The id of the project's last event, 0 when there is none. Raises NotFound."""
    project = ProjectRepository(session, organization_id).get(project_id)
    newest = select(func.max(ExecutionEvent.id)).where(ExecutionEvent.project_id == project.id)
    return session.scalar(newest) or 0


def _read(session: Session, query: Select[tuple[ExecutionEvent]], after: int) -> list[Happening]:
    following = query.where(ExecutionEvent.id > after).order_by(ExecutionEvent.id).limit(BATCH)
    return [Happening(event.id, event.kind, event.data) for event in session.scalars(following)]
