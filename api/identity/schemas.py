"""API keys and organizations as JSON. A key's secret is returned at its creation only."""

from __future__ import annotations

from datetime import datetime

from api.kit.schemas import Record
from core.tables import ApiKey, Organization


class KeyRecord(Record):
    id: str
    """Id of the key, which is not its secret."""
    name: str
    scopes: list[str]
    """What the key may do."""
    expires_at: datetime | None
    """When the key ends; null for never."""
    revoked_at: datetime | None
    """When it was revoked; null while it is valid."""
    last_used_at: datetime | None
    """When it was used last, to the minute; null before."""
    created_at: datetime
    person_id: str | None
    """Whose personal key it is; null for a key of the organization."""


class NewKey(KeyRecord):
    key: str
    """The secret that requests carry; it is not shown again."""


class OrganizationRecord(Record):
    id: str
    """Id of the organization."""
    name: str
    slug: str
    """Its name in lower case, for paths."""
    created_at: datetime


class NewOrganization(OrganizationRecord):
    """A new organization with its first admin key."""

    key: str
    """An API key with the scope `admin`; it is not shown again."""


def build_new_key(key: ApiKey, plaintext: str) -> NewKey:
    return NewKey(**KeyRecord.model_validate(key).model_dump(), key=plaintext)


def build_new_organization(organization: Organization, plaintext: str) -> NewOrganization:
    return NewOrganization(**OrganizationRecord.model_validate(organization).model_dump(), key=plaintext)
