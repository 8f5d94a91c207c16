"""API keys and organizations as JSON. A key's secret is returned at its creation only."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from api.kit.schemas import Body, Record
from core.definitions.identity.api_keys import SCOPES
from core.infra.changes import ClearableTime, Name, example
from core.tables import ApiKey, Organization

Scope = Annotated[str, Field(json_schema_extra={"enum": [*sorted(SCOPES)]})]


class KeyCreate(Body):
    """Without scopes the key gets all but `admin` and `super_admin`."""

    model_config = example({"name": "Reports", "scopes": ["etl:read", "datasets:read"]})

    name: Name
    scopes: list[Scope] | None = None
    """What the key may do; all but `admin` and `super_admin` when left out."""
    expires_at: ClearableTime | None = None
    """When the key ends; never when left out."""


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


class NewKey(KeyRecord):
    key: str
    """The secret that requests carry; it is not shown again."""


class OrganizationCreate(Body):
    model_config = example({"name": "Example Ltd"})

    name: Name


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


def key_record(key: ApiKey) -> KeyRecord:
    return KeyRecord.model_validate(key)


def new_key(key: ApiKey, plaintext: str) -> NewKey:
    return NewKey(**key_record(key).model_dump(), key=plaintext)


def organization_record(organization: Organization) -> OrganizationRecord:
    return OrganizationRecord.model_validate(organization)


def new_organization(organization: Organization, plaintext: str) -> NewOrganization:
    return NewOrganization(**organization_record(organization).model_dump(), key=plaintext)
