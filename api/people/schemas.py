"""People as JSON."""

from __future__ import annotations

from datetime import datetime

from api.kit.schemas import Record
from core.infra.settings.sign_in import Role


class PersonRecord(Record):
    id: str
    """Id of the person."""
    name: str
    """As the provider has it, at the last sign-in."""
    email: str | None
    """As the provider has it; null where it has none."""
    role: Role
    """What the person may do."""
    role_from_provider: bool
    """Whether groups at the provider decide the role; else admins do."""
    last_seen_at: datetime | None
    """When the person or a personal key was here last, to the minute."""
    removed_at: datetime | None
    """When an admin removed the person; null for one who may sign in."""
    created_at: datetime
    """When the person signed in first."""
