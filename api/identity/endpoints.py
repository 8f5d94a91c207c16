"""API keys of an organization, and the organizations of the instance."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from api.identity.schemas import (
    KeyCreate,
    KeyRecord,
    NewKey,
    NewOrganization,
    OrganizationCreate,
    OrganizationRecord,
    key_record,
    new_key,
    new_organization,
    organization_record,
)
from api.kit.auth import Admin, AnyKey, KeyRoute, SuperAdmin
from api.kit.errors import answers
from api.kit.pagination import PageOf
from api.kit.schemas import Nothing
from api.kit.services import ServicesOf

router = APIRouter(prefix="/auth", tags=["auth"], route_class=KeyRoute)


@router.get("/api-keys", summary="List the organization's API keys")
def list_keys(caller: Admin, services: ServicesOf, page: PageOf) -> list[KeyRecord]:
    """Return the organization's API keys without their secrets, oldest first, also those that are revoked."""
    keys = services.api_keys.list(caller, limit=page.limit, after=page.after)
    return [key_record(key) for key in page.link_rows(keys)]


@router.post("/api-keys", summary="Make an API key; its secret is answered this once")
def make_key(body: KeyCreate, caller: Admin, services: ServicesOf) -> NewKey:
    """Create a key of the caller's organization.

    The answer has its secret, which is stored as a hash only and cannot be read again.
    """
    return new_key(*services.api_keys.create(caller, body.name, body.scopes, body.expires_at or None))


@router.delete("/api-keys/{keyId}", summary="Revoke an API key", responses=answers(404))
def delete_key(
    key_id: Annotated[str, Path(alias="keyId", description="Id of the API key.")], caller: Admin, services: ServicesOf
) -> Nothing:
    """Refuse the key from now on, in all processes within a second. Its record stays."""
    services.api_keys.revoke(caller, key_id)
    return Nothing()


@router.get("/organizations", summary="List the organizations of the instance")
def list_organizations(_caller: SuperAdmin, services: ServicesOf) -> list[OrganizationRecord]:
    """Return all organizations of the instance. It needs the scope `super_admin`."""
    return [organization_record(organization) for organization in services.organizations.list()]


@router.post("/organizations", summary="Make an organization with its first admin key", responses=answers(409))
def make_organization(body: OrganizationCreate, _caller: SuperAdmin, services: ServicesOf) -> NewOrganization:
    """Create an organization and a key with the scope `admin` in it.

    The key is answered this once. It needs the scope `super_admin`.
    """
    return new_organization(*services.organizations.create(body.name))


@router.get("/organizations/me", summary="Read the key's own organization")
def read_own_organization(caller: AnyKey, services: ServicesOf) -> OrganizationRecord:
    """Return the organization that the key belongs to."""
    return organization_record(services.organizations.get_own(caller))
