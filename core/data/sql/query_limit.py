"""The limit of an organization's queries at once, over all processes and instances."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from core.definitions.identity.limits import load_limits, lock_limits
from core.errors import TooMany, Unavailable
from core.infra.database import Database
from core.tables import RunningQuery, StoredQuery, now

RETRY_AFTER_SECONDS = 5
GRACE_SECONDS = 30  # beyond the longest time of a query, after which the row of a killed process counts no more


@contextmanager
def hold_slot(database: Database, organization_id: str, seconds: float) -> Generator[None]:
    """Count a query of at most so many seconds while the block runs; raise TooMany where as many run as may."""
    with database.read() as session:
        limit = load_limits(session, organization_id).queries_at_once
    if limit is None:
        yield
        return
    with database.write(durable=False) as session:
        if not has_slot(session, organization_id):
            sentence = f"{limit:,} queries of the organization are running, the limit. Try again when one has ended."
            raise TooMany(sentence, RETRY_AFTER_SECONDS, code="concurrency-limit")
        row = RunningQuery(
            organization_id=organization_id, expires_at=now() + timedelta(seconds=seconds + GRACE_SECONDS)
        )
        session.add(row)
    try:
        yield
    finally:
        with suppress(Unavailable), database.write(durable=False) as session:  # it expires
            session.execute(delete(RunningQuery).where(RunningQuery.id == row.id))


def has_slot(session: Session, organization_id: str) -> bool:
    """Return whether one more query may run; then no other one begins before this transaction ends."""
    limit = load_limits(session, organization_id).queries_at_once
    if limit is None:
        return True
    lock_limits(session, organization_id)
    expired = (RunningQuery.organization_id == organization_id, RunningQuery.expires_at <= now())
    session.execute(delete(RunningQuery).where(*expired))
    return count_running(session, organization_id) < limit


def count_running(session: Session, organization_id: str) -> int:
    asked = select(func.count()).where(RunningQuery.organization_id == organization_id, RunningQuery.expires_at > now())
    stored = select(func.count()).where(StoredQuery.organization_id == organization_id, StoredQuery.state == "RUNNING")
    return (session.scalar(asked) or 0) + (session.scalar(stored) or 0)
