"""Operations on API keys and organizations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import (
    DEFAULT_ORGANIZATION,
    FIRST_KEY_NAME,
    ApiKeyRepository,
    Identity,
    KeyCache,
    create_key,
)
from core.definitions.identity.models import KeyCreate, OrganizationCreate
from core.definitions.identity.organizations import create_organization, find_organization, get_organization
from core.definitions.identity.roles import SUPER_ADMIN
from core.errors import Forbidden
from core.infra.database import Database
from core.tables import ApiKey, Organization


def list_own_keys(
    session: Session, caller: Identity, *, limit: int | None = None, after: str | None = None
) -> Sequence[ApiKey]:
    return ApiKeyRepository(session, caller.organization_id).list(limit=limit, after=after)


def create_own_key(session: Session, caller: Identity, new: KeyCreate) -> tuple[ApiKey, str]:
    """Create a key; return it and its plaintext. Only a super_admin may create another super_admin.

    Raises Forbidden for another organization too.
    """
    if new.organization_id and new.organization_id != caller.organization_id:
        raise Forbidden("A key belongs to the organization of the key that makes it.", path="organizationId")
    if SUPER_ADMIN in (new.scopes or ()) and not caller.may(SUPER_ADMIN):
        raise Forbidden(f"This key lacks the scope {SUPER_ADMIN}.", code="missing-scope")
    return create_key(session, caller.organization_id, new.name, new.scopes, new.expires_at or None)


def revoke_own_key(session: Session, cache: KeyCache, caller: Identity, key_id: str) -> None:
    """Revoke the key; the cache drops it as soon as the transaction is committed."""
    ApiKeyRepository(session, caller.organization_id).revoke(key_id)
    cache.remove_after_commit(session, key_id)


def get_own_organization(session: Session, caller: Identity) -> Organization:
    return get_organization(session, caller.organization_id)


def create_organization_with_key(
    session: Session, new: OrganizationCreate, add_agents: Callable[[Session, str], None]
) -> tuple[Organization, str]:
    """Create an organization, with the agents of its plugins; return it and the plaintext of its first admin key."""
    organization = create_organization(session, new.name)
    add_agents(session, organization.id)
    _, plaintext = create_key(session, organization.id, FIRST_KEY_NAME, {"admin"})
    return organization, plaintext


def check_database(database: Database) -> None:
    """Raise Unavailable unless the database answers and has its tables."""
    with database.read() as session:
        find_organization(session, DEFAULT_ORGANIZATION)
