"""Idempotency keys: the same call again gives what the first one made, for a day."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.orm import Session

from core.errors import Conflict
from core.infra.database import changed, insert
from core.tables import IdempotencyRecord, now

LIFETIME = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A caller's key, and the fingerprint of the call that it stands for."""

    organization_id: str
    key_hash: str
    fingerprint: str

    @classmethod
    def of(cls, organization_id: str, key: str, operation: str, body: bytes) -> IdempotencyKey:
        """`operation` tells what is called and with which ids: the same key for another one is another call."""
        return cls(organization_id, _hash(key.encode("utf-8", "replace")), _hash(operation.encode(), body))


def earlier(session: Session, key: IdempotencyKey) -> str | None:
    """The id of what a call with this key has made; raises Conflict when that was another call."""
    query = select(IdempotencyRecord).where(*_same(key), IdempotencyRecord.created_at > now() - LIFETIME)
    record = session.scalar(query)
    if record is None:
        return None
    if record.fingerprint != key.fingerprint:
        raise Conflict("This Idempotency-Key was used for another request. Use a new key for a new request.")
    return record.result_id


def remember(session: Session, key: IdempotencyKey, result_id: str) -> str:
    """Notes what the call makes, in its transaction; the id that counts, which may be that of a call at the same time.

    Raises Conflict when that one was another call.
    """
    at = now()
    _forget(session, key, at - LIFETIME)
    record = insert(session, IdempotencyRecord).values(
        organization_id=key.organization_id,
        key_hash=key.key_hash,
        fingerprint=key.fingerprint,
        result_id=result_id,
        created_at=at,
    )
    changed(session, record.on_conflict_do_nothing())
    return earlier(session, key) or result_id


def _forget(session: Session, key: IdempotencyKey, before: datetime) -> None:
    """Removes what is older than a day in the organization, this key's record among it."""
    own = IdempotencyRecord.organization_id == key.organization_id
    changed(session, delete(IdempotencyRecord).where(own, IdempotencyRecord.created_at <= before))


def _same(key: IdempotencyKey) -> tuple[ColumnElement[bool], ...]:
    organization = IdempotencyRecord.organization_id == key.organization_id
    return organization, IdempotencyRecord.key_hash == key.key_hash


def _hash(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
