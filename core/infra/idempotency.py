"""Idempotency keys: within a day, a repeated request returns the result of the first one.

Requests that begin executions store the execution's id in their own transaction (`store_result`). The other requests
that make a record claim their key first, and store their whole answer, encrypted, at their end.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, delete, or_, select, update
from sqlalchemy.orm import Session

from core.errors import Conflict
from core.infra.database import build_upsert, execute_update
from core.infra.encryption import AssociatedData, KeyRing
from core.tables import IdempotencyRecord, now

LIFETIME = timedelta(hours=24)
UNFINISHED_LIFETIME = timedelta(hours=2)  # longer than any request; its process was killed
REUSED = "This Idempotency-Key was used for another request. Use a new key for a new request."
UNFINISHED = "The first request with this Idempotency-Key has not been answered. Repeat the request in a moment."


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A caller's key and the fingerprint of the request that it was sent with."""

    organization_id: str
    key_hash: str
    fingerprint: str

    @classmethod
    def from_request(cls, organization_id: str, key: str, operation: str, body: bytes) -> IdempotencyKey:
        """Hash the key, and as fingerprint the operation (with the ids of its path) and the body."""
        return cls(organization_id, hash_parts(key.encode("utf-8", "replace")), hash_parts(operation.encode(), body))


def find_result(session: Session, key: IdempotencyKey) -> str | None:
    """Return the id that an earlier request with this key created; raise Conflict if that request differs."""
    record = _find(session, key)
    if record is None:
        return None
    _check_fingerprint(record, key)
    return record.result_id


def store_result(session: Session, key: IdempotencyKey, result_id: str) -> str:
    """Store the created id in the request's transaction and return it, or the id of a concurrent equal request.

    Raise Conflict if the concurrent request differs.
    """
    _insert(session, key, result_id)
    return find_result(session, key) or result_id


def claim(session: Session, key: IdempotencyKey) -> IdempotencyRecord | None:
    """Claim the key for a request that has not run; return the record of an earlier request that was answered.

    The fingerprint may be stored with the answer, so the caller compares it: see `open_answer`. Raise Conflict while
    the earlier request runs.
    """
    if _insert(session, key, None):
        return None
    record = _find(session, key)
    if record is None or (record.answer is None and record.result_id is None):
        raise Conflict(UNFINISHED, code="idempotency-key-unfinished", path="Idempotency-Key")
    return record


def store_answer(session: Session, key: IdempotencyKey, answer: str, key_ring: KeyRing) -> None:
    """Store the answer of the request that has claimed the key, with the fingerprint of its body."""
    encrypted = key_ring.encrypt(answer, _bind_key(key.organization_id, key.key_hash))
    values = {"answer": encrypted, "fingerprint": key.fingerprint}
    execute_update(session, update(IdempotencyRecord).where(*_match(key)).values(values))


def open_answer(record: IdempotencyRecord, key: IdempotencyKey, key_ring: KeyRing) -> str:
    """Return the stored answer; raise Conflict if the request differs from the one that was answered."""
    _check_fingerprint(record, key)
    return key_ring.decrypt(record.answer or "", bind_answer(record))


def release(session: Session, key: IdempotencyKey) -> None:
    """Give up the claim of a request that has failed, so that its repetition is executed."""
    execute_update(session, delete(IdempotencyRecord).where(*_match(key), IdempotencyRecord.answer.is_(None)))


def bind_answer(record: IdempotencyRecord) -> AssociatedData:
    """Return the context for which the record's answer is encrypted."""
    return _bind_key(record.organization_id, record.key_hash)


def hash_parts(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _insert(session: Session, key: IdempotencyKey, result_id: str | None) -> bool:
    at = now()
    _delete_expired(session, key, at)
    record = build_upsert(session, IdempotencyRecord).values(
        organization_id=key.organization_id,
        key_hash=key.key_hash,
        fingerprint=key.fingerprint,
        result_id=result_id,
        created_at=at,
    )
    return bool(execute_update(session, record.on_conflict_do_nothing()))


def _find(session: Session, key: IdempotencyKey) -> IdempotencyRecord | None:
    query = select(IdempotencyRecord).where(*_match(key), IdempotencyRecord.created_at > now() - LIFETIME)
    return session.scalar(query)


def _check_fingerprint(record: IdempotencyRecord, key: IdempotencyKey) -> None:
    if record.fingerprint != key.fingerprint:
        raise Conflict(REUSED, code="idempotency-key-reused", path="Idempotency-Key")


def _delete_expired(session: Session, key: IdempotencyKey, at: datetime) -> None:
    """Delete the organization's expired records, which may include one of this key."""
    created_at = IdempotencyRecord.created_at
    abandoned = and_(
        IdempotencyRecord.answer.is_(None),
        IdempotencyRecord.result_id.is_(None),
        created_at <= at - UNFINISHED_LIFETIME,
    )
    own = IdempotencyRecord.organization_id == key.organization_id
    execute_update(session, delete(IdempotencyRecord).where(own, or_(created_at <= at - LIFETIME, abandoned)))


def _match(key: IdempotencyKey) -> tuple[ColumnElement[bool], ...]:
    organization = IdempotencyRecord.organization_id == key.organization_id
    return organization, IdempotencyRecord.key_hash == key.key_hash


def _bind_key(organization_id: str, key_hash: str) -> AssociatedData:
    return AssociatedData(organization_id, key_hash, "answer")
