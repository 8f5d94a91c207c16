"""Operations on API keys and organizations, one transaction each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from core.definitions.identity.api_keys import (
    DEFAULT_ORGANIZATION,
    FIRST_KEY_NAME,
    SUPER_ADMIN,
    ApiKeyRepository,
    Identity,
    KeyCache,
    create_key,
)
from core.definitions.identity.organizations import (
    create_organization,
    find_organization,
    get_organization,
    list_organizations,
)
from core.errors import Forbidden
from core.infra.database import Database
from core.tables import ApiKey, Organization


class ApiKeyService:
    """The keys of the caller's organization."""

    def __init__(self, database: Database, cache: KeyCache) -> None:
        self._database = database
        self._cache = cache

    def list(self, caller: Identity, *, limit: int | None = None, after: str | None = None) -> Sequence[ApiKey]:
        with self._database.read() as session:
            return ApiKeyRepository(session, caller.organization_id).list(limit=limit, after=after)

    def create(
        self, caller: Identity, name: str, scopes: Collection[str] | None, expires_at: datetime | None
    ) -> tuple[ApiKey, str]:
        """Create a key; return it and its plaintext. Only a super_admin may create another super_admin."""
        if SUPER_ADMIN in (scopes or ()) and not caller.may(SUPER_ADMIN):
            raise Forbidden(f"This key lacks the scope {SUPER_ADMIN}.", code="missing-scope")
        with self._database.write() as session:
            return create_key(session, caller.organization_id, name, scopes, expires_at)

    def revoke(self, caller: Identity, key_id: str) -> None:
        with self._database.write() as session:
            ApiKeyRepository(session, caller.organization_id).revoke(key_id)
        self._cache.remove(key_id)


class OrganizationService:
    """The organizations of the instance."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self) -> Sequence[Organization]:
        """Return all organizations; callers need the scope super_admin."""
        with self._database.read() as session:
            return list_organizations(session)

    def get_own(self, caller: Identity) -> Organization:
        with self._database.read() as session:
            return get_organization(session, caller.organization_id)

    def create(self, name: str) -> tuple[Organization, str]:
        """Create an organization; return it and the plaintext of its first admin key."""
        with self._database.write() as session:
            organization = create_organization(session, name)
            _, plaintext = create_key(session, organization.id, FIRST_KEY_NAME, {"admin"})
            return organization, plaintext

    def check_database(self) -> None:
        """Raise Unavailable unless the database answers and has its tables."""
        with self._database.read() as session:
            find_organization(session, DEFAULT_ORGANIZATION)
