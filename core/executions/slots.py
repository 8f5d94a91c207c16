"""The slots of a project: how many of its executions may run or be about to run at once."""

from __future__ import annotations

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from core.errors import TooMany
from core.executions.states import State
from core.infra.database import changed
from core.tables import Execution, Project
from core.tables.executions import QUEUED

MAX_CONCURRENT_EXECUTIONS = 10
MAX_QUEUED_EXECUTIONS = 1000
RETRY_AFTER_SECONDS = 10


def hold_project(session: Session, project_id: str) -> None:
    """Lets one transaction at a time change the states of a project's executions; SQLite's writers are alone anyway.

    Locks are always taken in this order: organization, project, execution, job, task.
    """
    session.execute(select(Project.id).where(Project.id == project_id).with_for_update(key_share=True))


def take_slot(session: Session, project_id: str) -> bool:
    """One conditional UPDATE: of any number of simultaneous submits, ten get through."""
    free = (Project.id == project_id, Project.active_executions < MAX_CONCURRENT_EXECUTIONS)
    return _count(session, 1, *free)


def free_slot(session: Session, project_id: str) -> None:
    _count(session, -1, Project.id == project_id)


def place(session: Session, project_id: str, queue: bool) -> State:
    """Where an execution begins: in a slot, or, if it may, behind those that wait for one. Raises TooMany."""
    hold_project(session, project_id)
    if take_slot(session, project_id):
        return State.PENDING
    if not queue:
        sentence = f"This project has {MAX_CONCURRENT_EXECUTIONS} executions, the limit. Try again when one has ended."
        raise TooMany(sentence, RETRY_AFTER_SECONDS)
    waiting = session.scalar(select(func.count()).where(Execution.project_id == project_id, QUEUED)) or 0
    if waiting >= MAX_QUEUED_EXECUTIONS:
        sentence = f"{MAX_QUEUED_EXECUTIONS} executions of this project wait already, the limit. Try again later."
        raise TooMany(sentence, RETRY_AFTER_SECONDS)
    return State.QUEUED


def _count(session: Session, by: int, *conditions: ColumnElement[bool]) -> bool:
    counted = update(Project).where(*conditions)
    values = counted.values(active_executions=Project.active_executions + by, updated_at=Project.updated_at)
    return bool(changed(session, values))
