"""Entries of the audit log as JSON."""

from __future__ import annotations

from datetime import datetime

from api.kit.schemas import Record


class AuditRecord(Record):
    id: str
    """Id of the entry."""
    created_at: datetime
    """When the operation was answered."""
    actor: str
    """Name of the person or the key, as it was then."""
    person_id: str | None
    """Which person; null for a key of the organization."""
    key_id: str | None
    """Which key; null in a session of the console that a person has begun."""
    action: str
    """Id of the operation, as the OpenAPI file has it; `sign_in` and `sign_out` for the console."""
    object: dict[str, str]
    """Ids and names from the path, and the id of what was made."""
    status: int
    """HTTP status of the answer: from 400 on, nothing was changed."""
