"""The slots of a project: how many of its executions may run or be about to run at once."""

from __future__ import annotations

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from core.database import changed
from core.errors import TooMany
from core.tables import Project

MAX_CONCURRENT_EXECUTIONS = 10
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


def no_slot() -> TooMany:
    return TooMany(
        f"This project has {MAX_CONCURRENT_EXECUTIONS} executions, the limit. Try again when one has ended.",
        RETRY_AFTER_SECONDS,
    )


def _count(session: Session, by: int, *conditions: ColumnElement[bool]) -> bool:
    counted = update(Project).where(*conditions)
    values = counted.values(active_executions=Project.active_executions + by, updated_at=Project.updated_at)
    return bool(changed(session, values))
