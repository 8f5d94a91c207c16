"""The rate limit: so many requests per API key and clock minute, exact over all processes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete
from sqlalchemy.orm import Session

from core.database import Database, changed, insert
from core.errors import TooMany
from core.settings import REQUESTS_PER_MINUTE
from core.tables import RateCounter


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the RateLimit headers tell."""

    limit: int
    remaining: int
    reset_seconds: int


def admit(database: Database, key_id: str, at: datetime, limit: int = REQUESTS_PER_MINUTE) -> Allowance:
    """Counts one request; raises TooMany, with the seconds to the next minute, when the key has none left."""
    minute, second = divmod(int(at.timestamp()), 60)
    with database.brief() as session:
        requests = _count(session, key_id, minute, limit)
        if requests == 1:
            changed(session, delete(RateCounter).where(RateCounter.key_id == key_id, RateCounter.minute < minute))
    if requests is None:
        raise TooMany(f"This API key has made {limit} requests in this minute, which is the limit.", 60 - second)
    return Allowance(limit, limit - requests, 60 - second)


def _count(session: Session, key_id: str, minute: int, limit: int) -> int | None:
    """One conditional upsert; the number of this request in its minute, None when it is one too many."""
    first = insert(session, RateCounter).values(key_id=key_id, minute=minute, requests=1)
    counted = first.on_conflict_do_update(
        index_elements=[RateCounter.key_id, RateCounter.minute],
        set_={"requests": RateCounter.requests + 1},
        where=RateCounter.requests < limit,
    )
    return session.scalar(counted.returning(RateCounter.requests))
