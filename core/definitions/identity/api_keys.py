"""API keys: stored as hashes, bound to one organization, with scopes."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import or_, select, text, update
from sqlalchemy.orm import Session

from core.definitions.identity.console_sessions import find_session_key, hash_secret, is_session, renew_session
from core.definitions.identity.organizations import create_organization, find_organization
from core.errors import BadInput, Unauthorized, Unavailable
from core.infra.database import Database
from core.infra.repository import Repository
from core.infra.secrets import write_private
from core.infra.settings import Settings
from core.infra.validation import check_name
from core.tables import ApiKey, now

ORDINARY_SCOPES = frozenset({"etl:read", "etl:write", "etl:execute", "datasets:read", "datasets:write", "jobs:execute"})
SUPER_ADMIN = "super_admin"
SCOPES = ORDINARY_SCOPES | {"admin", SUPER_ADMIN}
DEFAULT_ORGANIZATION = "default"
FIRST_KEY_NAME = "first admin"
LAST_USED_RESOLUTION = timedelta(minutes=1)
CACHE_LIFETIME = timedelta(minutes=1)
CACHE_SIZE = 10_000
CLOCK_SKEW = timedelta(minutes=1)  # the largest between machines
REVOCATION_SECONDS = 5.0  # until other instances refuse a key
BOOTSTRAP_LOCK = 0x5350494E444C01


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated caller: one key of one organization."""

    organization_id: str
    key_id: str
    scopes: frozenset[str]

    @property
    def admin(self) -> bool:
        return bool(self.scopes & {"admin", SUPER_ADMIN})

    @property
    def viewer_key_id(self) -> str | None:
        """The key whose private categories are visible besides the public ones; None for an admin, who sees all."""
        return None if self.admin else self.key_id

    def may(self, scope: str) -> bool:
        """Return whether the key has the scope; `admin` implies every scope except `super_admin`."""
        return scope in self.scopes or (self.admin and scope != SUPER_ADMIN)


class ApiKeyRepository(Repository[ApiKey]):
    """The keys of one organization, without their secrets."""

    row = ApiKey
    noun = "API key"

    def list(self, *, limit: int | None = None, after: str | None = None) -> Sequence[ApiKey]:
        return self._fetch_page(self._select(), limit, after)

    def revoke(self, key_id: str) -> None:
        """Revoke the key for ever; its record stays."""
        key = self._fetch_by_id(key_id)
        key.revoked_at = key.revoked_at or now()
        self.session.flush()


class KeyCache:
    """Authenticates keys and remembers the result for a minute, so that few requests read the database.

    A key revoked by this process is removed at once; `remove_revoked`, called periodically, removes those that other
    processes revoked. The token of a session of the console counts as its key, and is remembered for a few seconds.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._entries: dict[str, tuple[Identity, datetime]] = {}  # by the key's hash, with their expiry
        self._refreshed_at = now()
        self._idle = database.watch_commits()

    def get(self, key: str) -> Identity | None:
        """Return the identity if it is in the cache."""
        identity, expires_at = self._entries.get(hash_secret(key), (None, None))
        return identity if expires_at is not None and now() < expires_at else None

    def authenticate(self, key: str) -> Identity:
        """Return the identity; raise Unauthorized when the key is unknown, revoked or expired."""
        if (identity := self.get(key)) is not None:
            return identity
        identity, key_expires_at = _authenticate(self._database, key)
        if is_session(key):
            key_expires_at = renew_session(self._database, key)
        expires_at = now() + CACHE_LIFETIME
        if len(self._entries) >= CACHE_SIZE:
            self._entries.clear()
        self._entries[hash_secret(key)] = identity, min(expires_at, key_expires_at or expires_at)
        return identity

    def close(self) -> None:
        self._idle.close()

    def authenticate_uncached(self, key: str) -> Identity:
        """Do the same with the database's current state, for streams that outlive the cache."""
        return _authenticate(self._database, key)[0]

    def remove_session(self, token: str) -> None:
        self._entries.pop(hash_secret(token), None)

    def remove(self, *key_ids: str) -> None:
        for key_hash, (identity, _) in list(self._entries.items()):
            if identity.key_id in key_ids:
                self._entries.pop(key_hash, None)

    def remove_revoked(self) -> None:
        """Remove keys revoked since the last call, or all when the database does not answer."""
        if not self._entries or self._idle.is_resting():
            return
        since, self._refreshed_at = self._refreshed_at - CLOCK_SKEW, now()
        try:
            with self._database.read() as session:
                self.remove(*session.scalars(select(ApiKey.id).where(ApiKey.revoked_at >= since)))
            self._idle.rest(REVOCATION_SECONDS)
        except Unavailable:
            self._entries.clear()


def create_key(
    session: Session,
    organization_id: str,
    name: str,
    scopes: Collection[str] | None = None,
    expires_at: datetime | None = None,
    plaintext: str | None = None,
) -> tuple[ApiKey, str]:
    """Create a key, by default with all scopes except the admin ones; return it and its plaintext, never stored."""
    check_name(name)
    scopes = ORDINARY_SCOPES if scopes is None else set(scopes)
    if not scopes:
        sentence = "A key without a scope can do nothing. Name its scopes, or leave 'scopes' out for the ordinary ones."
        raise BadInput(sentence, path="scopes")
    unknown = sorted(scopes - SCOPES)
    if unknown:
        sentence = f"Unknown scope: {', '.join(unknown)}. Scopes are {', '.join(sorted(SCOPES))}."
        raise BadInput(sentence, code="unknown-scope", path="scopes")
    plaintext = plaintext or f"sk_{secrets.token_urlsafe(32)}"
    key = ApiKey(
        organization_id=organization_id,
        name=name,
        key_hash=hash_secret(plaintext),
        scopes=sorted(scopes),
        expires_at=expires_at,
    )
    session.add(key)
    session.flush()
    return key, plaintext


def bootstrap(database: Database, settings: Settings) -> None:
    """Create the first organization and its admin key, that of the settings or one in DATA/admin-key."""
    with database.read() as session:
        if find_organization(session, DEFAULT_ORGANIZATION):
            return
    with database.write() as session:
        if session.get_bind().dialect.name == "postgresql":
            session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": BOOTSTRAP_LOCK})
        if find_organization(session, DEFAULT_ORGANIZATION):
            return
        organization = create_organization(session, DEFAULT_ORGANIZATION)
        given = settings.keys.admin_key.get_secret_value() if settings.keys.admin_key else None
        _, plaintext = create_key(session, organization.id, FIRST_KEY_NAME, {"admin", SUPER_ADMIN}, plaintext=given)
        if given is None:
            # before the commit: a file without a key is harmless, a key without a file is lost
            write_private(settings.data / "admin-key", plaintext)


def _authenticate(database: Database, key: str) -> tuple[Identity, datetime | None]:
    """Return the identity and the key's expiry."""
    found = _fetch_key(database, key)
    if found is None or not _is_valid(found, now()):
        raise Unauthorized("The API key is missing or not valid.")
    _update_last_used(database, found)
    return Identity(found.organization_id, found.id, frozenset(found.scopes)), found.expires_at


def _fetch_key(database: Database, key: str) -> ApiKey | None:
    with database.read() as session:
        if is_session(key):
            return find_session_key(session, key)
        return session.scalar(select(ApiKey).where(ApiKey.key_hash == hash_secret(key)))


def _is_valid(key: ApiKey, at: datetime) -> bool:
    return key.revoked_at is None and (key.expires_at is None or key.expires_at > at)


def _update_last_used(database: Database, key: ApiKey) -> None:
    """Store the time of use to the minute, so that few requests write."""
    at = now()
    if key.last_used_at is not None and at - key.last_used_at < LAST_USED_RESOLUTION:
        return
    stale = or_(ApiKey.last_used_at.is_(None), ApiKey.last_used_at <= at - LAST_USED_RESOLUTION)
    with database.write(durable=False) as session:
        session.execute(update(ApiKey).where(ApiKey.id == key.id, stale).values(last_used_at=at, updated_at=at))
