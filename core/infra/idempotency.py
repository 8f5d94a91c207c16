"""Idempotency keys: within a day, a repeated request returns the result of the first one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.orm import Session

from core.errors import Conflict
from core.infra.database import build_upsert, execute_update
from core.tables import IdempotencyRecord, now

LIFETIME = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A caller's key and the fingerprint of the request that it was sent with."""

    organization_id: str
    key_hash: str
    fingerprint: str

    @classmethod
    def from_request(cls, organization_id: str, key: str, operation: str, body: bytes) -> IdempotencyKey:
        """Hash the key, and as fingerprint the operation (with the ids of its path) and the body."""
        return cls(organization_id, _hash(key.encode("utf-8", "replace")), _hash(operation.encode(), body))


def find_result(session: Session, key: IdempotencyKey) -> str | None:
    """Return the id that an earlier request with this key created; raise Conflict if that request differs."""
    query = select(IdempotencyRecord).where(*_match(key), IdempotencyRecord.created_at > now() - LIFETIME)
    record = session.scalar(query)
    if record is None:
        return None
    if record.fingerprint != key.fingerprint:
        sentence = "This Idempotency-Key was used for another request. Use a new key for a new request."
        raise Conflict(sentence, code="idempotency-key-reused", path="Idempotency-Key")
    return record.result_id


def store_result(session: Session, key: IdempotencyKey, result_id: str) -> str:
    """Store the created id in the request's transaction and return it, or the id of a concurrent equal request.

    Raise Conflict if the concurrent request differs.
    """
    at = now()
    _delete_expired(session, key, at - LIFETIME)
    record = build_upsert(session, IdempotencyRecord).values(
        organization_id=key.organization_id,
        key_hash=key.key_hash,
        fingerprint=key.fingerprint,
        result_id=result_id,
        created_at=at,
    )
    execute_update(session, record.on_conflict_do_nothing())
    return find_result(session, key) or result_id


def _delete_expired(session: Session, key: IdempotencyKey, before: datetime) -> None:
    """Delete the organization's expired records, which may include one of this key."""
    own = IdempotencyRecord.organization_id == key.organization_id
    execute_update(session, delete(IdempotencyRecord).where(own, IdempotencyRecord.created_at <= before))


def _match(key: IdempotencyKey) -> tuple[ColumnElement[bool], ...]:
    organization = IdempotencyRecord.organization_id == key.organization_id
    return organization, IdempotencyRecord.key_hash == key.key_hash


def _hash(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
