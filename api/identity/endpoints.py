"""API keys of an organization, and the organizations of the instance."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from api.identity.schemas import (
    KeyRecord,
    NewKey,
    NewOrganization,
    OrganizationRecord,
    build_new_key,
    build_new_organization,
)
from api.kit.auth import Admin, AnyKey, KeyRoute, SuperAdmin
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.pagination import PageOf
from api.kit.schemas import Nothing
from api.kit.services import ServicesOf
from api.kit.sessions import ReadSession, WriteSession
from core.definitions.agents.shipped import add_shipped_agents
from core.definitions.identity import organizations, service
from core.definitions.identity.models import KeyCreate, OrganizationCreate

router = APIRouter(prefix="/auth", tags=["auth"], route_class=KeyRoute)


@router.get("/api-keys", summary="List the organization's API keys")
def list_keys(caller: Admin, session: ReadSession, page: PageOf) -> list[KeyRecord]:
    """Return the organization's API keys without their secrets, oldest first, also those that are revoked."""
    keys = service.list_own_keys(session, caller, limit=page.limit, after=page.after)
    return [KeyRecord.model_validate(key) for key in page.link_rows(keys)]


@router.post("/api-keys", dependencies=[REPLAYED], summary="Make an API key; its secret is answered this once")
def make_key(body: KeyCreate, caller: Admin, session: WriteSession) -> NewKey:
    """Create a key of the caller's organization.

    The answer has its secret, which is stored as a hash only and cannot be read again.
    """
    return build_new_key(*service.create_own_key(session, caller, body))


@router.delete("/api-keys/{keyId}", summary="Revoke an API key", responses=answers(404))
def delete_key(
    key_id: Annotated[str, Path(alias="keyId", description="Id of the API key.")],
    caller: Admin,
    session: WriteSession,
    services: ServicesOf,
) -> Nothing:
    """Refuse the key from now on, in all processes within a second. Its record stays."""
    service.revoke_own_key(session, services.keys, caller, key_id)
    return Nothing()


@router.get("/organizations", summary="List the organizations of the instance")
def list_organizations(_caller: SuperAdmin, session: ReadSession) -> list[OrganizationRecord]:
    """Return all organizations of the instance. It needs the scope `super_admin`."""
    return [OrganizationRecord.model_validate(each) for each in organizations.list_organizations(session)]


@router.post(
    "/organizations",
    dependencies=[REPLAYED],
    summary="Make an organization with its first admin key",
    responses=answers(409),
)
def make_organization(body: OrganizationCreate, _caller: SuperAdmin, session: WriteSession) -> NewOrganization:
    """Create an organization and a key with the scope `admin` in it.

    The key is answered this once. It needs the scope `super_admin`.
    """
    return build_new_organization(*service.create_organization_with_key(session, body, add_shipped_agents))


@router.get("/organizations/me", summary="Read the key's own organization")
def read_own_organization(caller: AnyKey, session: ReadSession) -> OrganizationRecord:
    """Return the organization that the key belongs to."""
    return OrganizationRecord.model_validate(service.get_own_organization(session, caller))
