"""Operations on the cloud credentials of the caller's organization and on the global ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy.orm import Session

from core.definitions.credentials.check import CredentialVerdict, check_credential
from core.definitions.credentials.models import CredentialCreate, CredentialTest, CredentialUpdate
from core.definitions.credentials.providers import normalize_spelling, parse_provider
from core.definitions.credentials.repository import CredentialRepository, decrypt_fields
from core.definitions.identity.api_keys import Identity
from core.errors import BadInput, Detail
from core.infra.database import Database
from core.infra.encryption import KeyRing
from core.infra.http_client import check_endpoint
from core.infra.preconditions import Versioned, add_etag
from core.infra.settings import Settings
from core.tables import CloudCredential
from pipelines.registry import CREDENTIALS

SERVERS = frozenset({"KAFKA", "MONGODB", "MYSQL", "POSTGRESQL", "SMTP"})  # not asked over HTTP


def list_usable(
    session: Session,
    caller: Identity,
    *,
    provider: str | None = None,
    limit: int | None = None,
    after: str | None = None,
    offset: int = 0,
) -> Sequence[CloudCredential]:
    return _open_repository(session, caller).list(provider=provider, limit=limit, after=after, offset=offset)


def get(session: Session, caller: Identity, credential_id: str) -> Versioned[CloudCredential]:
    return add_etag(_open_repository(session, caller).get(credential_id))


def create(
    session: Session, settings: Settings, caller: Identity, new: CredentialCreate, key_ring: KeyRing
) -> Versioned[CloudCredential]:
    """Store a credential; raise BadInput for one whose endpoint can never be asked."""
    _check_endpoint(settings, new.provider, new.endpoint)
    return add_etag(_open_repository(session, caller).create(new, key_ring))


def update(
    session: Session,
    settings: Settings,
    caller: Identity,
    credential_id: str,
    changes: CredentialUpdate,
    key_ring: KeyRing,
    if_match: Collection[str],
) -> Versioned[CloudCredential]:
    credentials = _open_repository(session, caller)
    credential = credentials.get(credential_id)
    _check_endpoint(settings, changes.provider or credential.provider, changes.endpoint)
    credentials.lock(credential, if_match)
    return add_etag(credentials.update(credential_id, changes, key_ring))


def _check_endpoint(settings: Settings, provider: str, endpoint: str | None) -> None:
    """Check the endpoint of a provider that is asked over HTTP; those of databases and brokers are hosts."""
    name = normalize_spelling(provider)
    if endpoint and CREDENTIALS.get(name) and name not in SERVERS:
        check_endpoint(settings, endpoint, "endpoint")


def delete(session: Session, caller: Identity, credential_id: str, if_match: Collection[str]) -> None:
    credentials = _open_repository(session, caller)
    credentials.lock(credentials.get(credential_id), if_match)
    credentials.delete(credential_id)


def check(
    settings: Settings, database: Database, caller: Identity, tested: CredentialTest, key_ring: KeyRing
) -> CredentialVerdict:
    """Ask the provider, outside of a transaction, whether a stored credential or the sent fields are valid."""
    if credential_id := tested.credential_id or tested.id:
        with database.read() as session:
            credential = _open_repository(session, caller).get(credential_id)
        provider, fields = credential.provider, decrypt_fields(credential, key_ring)
    elif tested.provider is not None:
        provider, fields = parse_provider(tested.provider), tested.get_provider_fields()
    else:
        sentence = "Send the 'credentialId' of a stored credential, or a 'provider' with its fields."
        paths = ("credentialId", "provider")
        raise BadInput(sentence, [Detail(path, sentence, "missing-field") for path in paths])
    return check_credential(settings, provider, fields)


def _open_repository(session: Session, caller: Identity) -> CredentialRepository:
    return CredentialRepository(session, caller.organization_id, super_admin=caller.may("super_admin"))
