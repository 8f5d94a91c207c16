"""Operations on cloud credentials, one transaction each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from core.definitions.credentials.check import CheckResult, check_credential
from core.definitions.credentials.providers import parse_provider
from core.definitions.credentials.repository import PLAIN, SECRETS, CredentialRepository, decrypt_fields
from core.definitions.identity.api_keys import Identity
from core.errors import BadInput, Detail
from core.infra.database import Database
from core.infra.encryption import KeyRing
from core.infra.preconditions import Versioned, compute_etag
from core.infra.settings import Settings
from core.tables import CloudCredential

FIELDS = frozenset({*SECRETS, *PLAIN})


@dataclass(frozen=True, slots=True)
class CredentialCheck:
    """The outcome of a check and the provider that it asked."""

    provider: str
    result: CheckResult


class CredentialService:
    """Every method works on the credentials of the caller's organization and on the global ones."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database

    def list(
        self,
        caller: Identity,
        *,
        provider: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        offset: int = 0,
    ) -> Sequence[CloudCredential]:
        with self._database.read() as session:
            return _open(session, caller).list(provider=provider, limit=limit, after=after, offset=offset)

    def get(self, caller: Identity, credential_id: str) -> Versioned[CloudCredential]:
        with self._database.read() as session:
            return _tag(_open(session, caller).get(credential_id))

    def create(
        self, caller: Identity, values: Mapping[str, Any], key_ring: KeyRing, *, everywhere: bool
    ) -> Versioned[CloudCredential]:
        with self._database.write() as session:
            return _tag(_open(session, caller).create(values, key_ring, everywhere=everywhere))

    def update(
        self,
        caller: Identity,
        credential_id: str,
        changes: Mapping[str, Any],
        key_ring: KeyRing,
        if_match: Collection[str],
    ) -> Versioned[CloudCredential]:
        with self._database.write() as session:
            credentials = _open(session, caller)
            credentials.lock(credentials.get(credential_id), if_match)
            return _tag(credentials.update(credential_id, changes, key_ring))

    def delete(self, caller: Identity, credential_id: str, if_match: Collection[str]) -> None:
        with self._database.write() as session:
            credentials = _open(session, caller)
            credentials.lock(credentials.get(credential_id), if_match)
            credentials.delete(credential_id)

    def check(
        self,
        caller: Identity,
        key_ring: KeyRing,
        credential_id: str | None,
        provider: str | None,
        values: Mapping[str, Any],
    ) -> CredentialCheck:
        """Ask the provider whether the stored credential with this id, or one of these values, is valid."""
        if credential_id is not None:
            with self._database.read() as session:
                credential = _open(session, caller).get(credential_id)
            provider, fields = credential.provider, decrypt_fields(credential, key_ring)
        elif provider is not None:
            provider, fields = parse_provider(provider), {field: values[field] for field in FIELDS if field in values}
        else:
            sentence = "Send the 'credentialId' of a stored credential, or a 'provider' with its fields."
            paths = ("credentialId", "provider")
            raise BadInput(sentence, [Detail(path, sentence, "missing-field") for path in paths])
        return CredentialCheck(provider, check_credential(self._settings, provider, fields))


def _open(session: Session, caller: Identity) -> CredentialRepository:
    return CredentialRepository(session, caller.organization_id, super_admin=caller.may("super_admin"))


def _tag(credential: CloudCredential) -> Versioned[CloudCredential]:
    return Versioned(credential, compute_etag(credential))
