"""The effect of an organization's limits on an execution that begins: its day, its storage, and those at once."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from core.data.datasets.storage_limit import check_storage
from core.definitions.identity.limits import load_limits, lock_limits
from core.errors import DailyLimit
from core.tables import Execution, OrganizationLimits, Project, now


def count_new(session: Session, organization_id: str) -> None:
    """Count a new execution of the organization in its day.

    Raises TooMany beyond the day's limit, and Conflict where its datasets take more storage than they may.
    """
    limits = load_limits(session, organization_id)
    check_storage(session, organization_id, limits.storage_bytes)
    if limits.executions_a_day is None:
        return
    at, row = now(), lock_limits(session, organization_id)
    count = count_of_day(session, row, organization_id, at)
    if count >= limits.executions_a_day:
        next_day = find_midnight(at) + timedelta(days=1)
        sentence = (
            f"The organization has begun {count:,} executions today; the limit is {limits.executions_a_day:,}. "
            f"The next one may begin at {next_day:%Y-%m-%dT%H:%M:%SZ}."
        )
        raise DailyLimit(sentence, int((next_day - at).total_seconds()) + 1)
    row.day, row.day_executions = at.date(), count + 1
    session.flush()


def is_day_over(session: Session, organization_id: str) -> bool:
    """Return whether the organization begins no more executions today."""
    limit = load_limits(session, organization_id).executions_a_day
    row = session.get(OrganizationLimits, organization_id)
    return limit is not None and count_of_day(session, row, organization_id, now()) >= limit


def count_of_day(session: Session, row: OrganizationLimits | None, organization_id: str, at: datetime) -> int:
    """Return how many executions the organization has begun on the day of a time, from its record if that counts them.

    Ids are in the order of time, so that the others of the day are found by their key.
    """
    if row is not None and row.day == at.date():
        return row.day_executions
    first = UUID(int=int(find_midnight(at).timestamp() * 1000) << 80)
    query = select(func.count()).where(Execution.id >= str(first), Execution.organization_id == organization_id)
    return session.scalar(query) or 0


def find_midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def count_active(session: Session, organization_id: str) -> int:
    query = select(func.sum(Project.active_executions)).where(Project.organization_id == organization_id)
    return session.scalar(query) or 0


def is_full(session: Session, organization_id: str, reserved: int = 0) -> bool:
    """Return whether the organization has as many executions as it may at once, with those that have to come first."""
    limit = load_limits(session, organization_id).executions_at_once
    return limit is not None and count_active(session, organization_id) + reserved >= limit
