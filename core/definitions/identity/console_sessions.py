"""Sessions of the console: a token in a browser's cookie that stands for a key or a person while both are valid."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.orm import Session

from core.infra.database import Database
from core.tables import ApiKey, ConsoleSession, Person, now

IDLE = timedelta(hours=1)
LONGEST = timedelta(hours=12)
RENEWAL_RESOLUTION = timedelta(minutes=1)
CACHE_LIFETIME = timedelta(seconds=5)  # until other processes notice that a session was ended
PREFIX = "session_"


def hash_secret(secret: str) -> str:
    """Hash a key or token of 256 random bits: SHA-256 suffices, because there is nothing to guess."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def is_session(key: str) -> bool:
    """Return whether the text in place of a key is the token of a session."""
    return key.startswith(PREFIX)


def begin_session(
    session: Session,
    *,
    key_id: str | None = None,
    person_id: str | None = None,
    provider_session: str | None = None,
    id_token: str | None = None,
) -> str:
    """Store a session of the key or the person, remove those that have expired, and return the token.

    A provider's sign-out names its own id of the session (`provider_session`), and ours shows its `id_token`.
    """
    token, at = f"{PREFIX}{secrets.token_urlsafe(32)}", now()
    session.execute(delete(ConsoleSession).where(ConsoleSession.expires_at <= at))
    begun = ConsoleSession(key_id=key_id, person_id=person_id, created_at=at, expires_at=at + IDLE)
    begun.token_hash, begun.id_token = hash_secret(token), id_token
    begun.provider_session_hash = provider_session and hash_secret(provider_session)
    session.add(begun)
    return token


def end_session(database: Database, token: str) -> str | None:
    """End the session of the token; return the ID token with which a person began it."""
    mine = ConsoleSession.token_hash == hash_secret(token)
    with database.write() as session:
        return session.scalar(delete(ConsoleSession).where(mine).returning(ConsoleSession.id_token))


def end_sessions_of_person(session: Session, person_id: str) -> None:
    """End the sessions of a person, and those that the person's keys have begun."""
    keys = select(ApiKey.id).where(ApiKey.person_id == person_id)
    own = or_(ConsoleSession.person_id == person_id, ConsoleSession.key_id.in_(keys))
    session.execute(delete(ConsoleSession).where(own))


def find_session_owner(session: Session, token: str) -> tuple[ApiKey | None, Person | None]:
    """Return key and person of a session that has not expired; they themselves may have."""
    query = (
        select(ApiKey, Person)
        .select_from(ConsoleSession)
        .outerjoin(ApiKey, ApiKey.id == ConsoleSession.key_id)
        .outerjoin(Person, Person.id == func.coalesce(ConsoleSession.person_id, ApiKey.person_id))
        .where(ConsoleSession.token_hash == hash_secret(token), ConsoleSession.expires_at > now())
    )
    return session.execute(query).tuples().one_or_none() or (None, None)


def renew_session(database: Database, token: str) -> datetime:
    """Put off the end of a session that is in use; return until when it may be used without a further look."""
    at = now()
    mine = ConsoleSession.token_hash == hash_secret(token)
    with database.read() as session:
        begun_at, expires_at = session.execute(
            select(ConsoleSession.created_at, ConsoleSession.expires_at).where(mine)
        ).one_or_none() or (at, at)
    renewed = min(at + IDLE, begun_at + LONGEST)
    if renewed - expires_at >= RENEWAL_RESOLUTION:
        with database.write(durable=False) as session:
            session.execute(update(ConsoleSession).where(mine).values(expires_at=renewed))
    return min(expires_at, at + CACHE_LIFETIME)
