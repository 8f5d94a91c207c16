"""API keys and organizations as JSON. A key's secret is returned at its creation only."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from api.kit.schemas import Body, ClearableTime, Name, Record, example
from core.identity.api_keys import SCOPES
from core.tables import ApiKey, Organization

Scope = Annotated[str, Field(json_schema_extra={"enum": [*sorted(SCOPES)]})]


class KeyCreate(Body):
    """Without scopes the key gets all but `admin` and `super_admin`."""

    model_config = example({"name": "Reports", "scopes": ["etl:read", "datasets:read"]})

    name: Name
    scopes: list[Scope] | None = None
    expires_at: ClearableTime | None = None


class KeyRecord(Record):
    id: str
    name: str
    scopes: list[str]
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    created_at: datetime


class NewKey(KeyRecord):
    key: str


class OrganizationCreate(Body):
    model_config = example({"name": "Example Ltd"})

    name: Name


class OrganizationRecord(Record):
    id: str
    name: str
    slug: str
    created_at: datetime


class NewOrganization(OrganizationRecord):
    """A new organization with its first admin key."""

    key: str


def key_record(key: ApiKey) -> KeyRecord:
    return KeyRecord.model_validate(key)


def new_key(key: ApiKey, plaintext: str) -> NewKey:
    return NewKey(**key_record(key).model_dump(), key=plaintext)


def organization_record(organization: Organization) -> OrganizationRecord:
    return OrganizationRecord.model_validate(organization)


def new_organization(organization: Organization, plaintext: str) -> NewOrganization:
    return NewOrganization(**organization_record(organization).model_dump(), key=plaintext)
