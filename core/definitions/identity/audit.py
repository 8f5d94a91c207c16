"""The audit log: callers, operations, records, and results; no bodies and no secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import structlog
from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import Identity
from core.errors import SpindleError
from core.infra.database import Database, execute_update
from core.tables import AuditEntry, first_id_at

MAX_LENGTH = 200
log = structlog.get_logger()


def record_action(database: Database, caller: Identity, action: str, ids: Mapping[str, str], status: int) -> None:
    """Store that the caller called an operation on the records with these ids, and the status of its answer.

    An answer does not fail when its entry cannot be stored: the entry is in the service's log then.
    """
    values = {
        "organization_id": caller.organization_id,
        "actor": caller.name,
        "person_id": caller.person_id,
        "key_id": caller.key_id if caller.key_id != caller.person_id else None,
        "action": action,
        "object": {name: value[:MAX_LENGTH] for name, value in ids.items()},
        "status": status,
    }
    try:
        with database.write(durable=False) as session:
            session.execute(insert(AuditEntry).values(values))
    except SpindleError:
        log.exception("an audit entry was not stored", **values)


def list_entries(session: Session, caller: Identity, *, limit: int, before: str | None = None) -> Sequence[AuditEntry]:
    """Return the organization's entries, the newest first, beginning behind the one with the id `before`."""
    query = select(AuditEntry).where(AuditEntry.organization_id == caller.organization_id)
    if before is not None:
        query = query.where(AuditEntry.id < before)
    return session.scalars(query.order_by(AuditEntry.id.desc()).limit(limit)).all()


def delete_old_entries(session: Session, before: datetime, limit: int | None) -> int:
    """Delete entries from before a time, at most `limit`; return how many."""
    old = select(AuditEntry.id).where(AuditEntry.id < first_id_at(before)).limit(limit)
    return execute_update(session, delete(AuditEntry).where(AuditEntry.id.in_(old)))
