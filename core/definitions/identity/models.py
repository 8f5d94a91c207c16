"""The fields of API keys and organizations that a request sets."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from core.definitions.identity.api_keys import SCOPES
from core.infra.changes import Changes, ClearableTime, Name, example

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
