"""API keys of an organization, and the organizations of the instance."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from api.auth.schemas import (
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
from api.kit.auth import Admin, AnyKey, KeyRoute, SuperAdmin, require
from api.kit.errors import answers
from api.kit.pagination import PageOf
from api.kit.schemas import Nothing
from api.kit.services import ServicesOf
from core.identity.api_keys import ApiKeys, create_key
from core.identity.organizations import all_organizations, create_organization, get_organization

router = APIRouter(prefix="/auth", tags=["auth"], route_class=KeyRoute)
SUPER_ADMIN = "super_admin"


@router.get("/api-keys", summary="List the organization's API keys")
def list_keys(caller: Admin, services: ServicesOf, page: PageOf) -> list[KeyRecord]:
    with services.database.read() as session:
        keys = ApiKeys(session, caller.organization_id).list(limit=page.limit, after=page.after)
        return [key_record(key) for key in page.linked(keys)]


@router.post("/api-keys", summary="Make an API key; its secret is answered this once")
def make_key(body: KeyCreate, caller: Admin, services: ServicesOf) -> NewKey:
    if SUPER_ADMIN in (body.scopes or ()):
        require(caller, SUPER_ADMIN)
    with services.database.write() as session:
        key, plaintext = create_key(session, caller.organization_id, body.name, body.scopes or (), body.expires_at)
        return new_key(key, plaintext)


@router.delete("/api-keys/{keyId}", summary="Revoke an API key", responses=answers(404))
def delete_key(key_id: Annotated[str, Path(alias="keyId")], caller: Admin, services: ServicesOf) -> Nothing:
    with services.database.write() as session:
        ApiKeys(session, caller.organization_id).revoke(key_id)
    services.keys.forget(key_id)
    return Nothing()


@router.get("/organizations", summary="List the organizations of the instance")
def list_organizations(_caller: SuperAdmin, services: ServicesOf) -> list[OrganizationRecord]:
    with services.database.read() as session:
        return [organization_record(organization) for organization in all_organizations(session)]


@router.post("/organizations", summary="Make an organization with its first admin key", responses=answers(409))
def make_organization(body: OrganizationCreate, _caller: SuperAdmin, services: ServicesOf) -> NewOrganization:
    with services.database.write() as session:
        organization = create_organization(session, body.name)
        _, plaintext = create_key(session, organization.id, "first admin", {"admin"})
        return new_organization(organization, plaintext)


@router.get("/organizations/me", summary="Read the key's own organization")
def read_own_organization(caller: AnyKey, services: ServicesOf) -> OrganizationRecord:
    with services.database.read() as session:
        return organization_record(get_organization(session, caller.organization_id))
