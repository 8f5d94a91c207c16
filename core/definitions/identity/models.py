"""The fields of API keys, people and organizations that a request sets."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from core.definitions.identity.roles import SCOPES
from core.infra.changes import Changes, ClearableTime, Name, Time, example
from core.infra.settings.sign_in import Role

Scope = Annotated[str, Field(json_schema_extra={"enum": [*sorted(SCOPES)]})]


class KeyCreate(Changes):
    """Without scopes the key gets all but `admin` and `super_admin`."""

    model_config = example({"name": "Reports", "scopes": ["etl:read", "datasets:read"]})

    name: Name
    scopes: list[Scope] | None = None
    """What the key may do; all but `admin` and `super_admin` when left out."""
    organization_id: str | None = None
    """The caller's own organization, if any: keys of others are 403."""
    expires_at: ClearableTime | None = None
    """When the key ends; never when left out."""


class OrganizationCreate(Changes):
    model_config = example({"name": "Example Ltd"})

    name: Name


class PersonalKeyCreate(Changes):
    """A key of the person who makes it; it never may more than the person's role."""

    model_config = example({"name": "Notebook", "scopes": ["etl:read"], "expiresAt": "2027-06-30T00:00:00Z"})

    name: Name
    scopes: list[Scope] | None = None
    """What the key may do; all that the caller may when left out."""
    expires_at: Time
    """When the key ends, at most 366 days from now."""


class PersonUpdate(Changes):
    model_config = example({"role": "editor"})

    role: Role
    """What the person may do from now on."""
