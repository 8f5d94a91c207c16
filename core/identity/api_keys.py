"""API keys: shown once, stored hashed, bound to one organization, with scopes."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import or_, select, text, update
from sqlalchemy.orm import Session

from core.errors import BadInput, Unauthorized, Unavailable
from core.identity.organizations import create_organization, find_organization
from core.infra.database import Database, again
from core.infra.repository import Repository
from core.infra.secrets import write_private
from core.infra.settings import Settings
from core.infra.validation import check_name
from core.tables import ApiKey, now

ORDINARY_SCOPES = frozenset({"etl:read", "etl:write", "etl:execute", "datasets:read", "datasets:write", "jobs:execute"})
SCOPES = ORDINARY_SCOPES | {"admin", "super_admin"}
DEFAULT_ORGANIZATION = "default"
LAST_USED_RESOLUTION = timedelta(minutes=1)
BELIEVED = timedelta(minutes=1)
MOST_KNOWN = 10_000
CLOCKS_DIFFER = timedelta(minutes=1)  # at most, between machines
BOOTSTRAP_LOCK = 0x5350494E444C01


@dataclass(frozen=True, slots=True)
class Identity:
    """Who calls: one key of one organization."""

    organization_id: str
    key_id: str
    scopes: frozenset[str]

    @property
    def admin(self) -> bool:
        return bool(self.scopes & {"admin", "super_admin"})

    @property
    def viewer_key_id(self) -> str | None:
        """The key whose private categories are visible besides the public ones; None for an admin, who sees all."""
        return None if self.admin else self.key_id

    def may(self, scope: str) -> bool:
        """`admin` implies every scope inside the organization, `super_admin` is implied by none."""
        return scope in self.scopes or (self.admin and scope != "super_admin")


class ApiKeys(Repository[ApiKey]):
    """The keys of one organization, without their secrets."""

    row = ApiKey
    noun = "API key"

    def list(self, *, limit: int | None = None, after: str | None = None) -> Sequence[ApiKey]:
        return self._fetch_page(self._select(), limit, after)

    def revoke(self, key_id: str) -> None:
        """From now on the key opens nothing; its record stays."""
        key = self._fetch_by_id(key_id)
        key.revoked_at = key.revoked_at or now()
        self.session.flush()


class KnownKeys:
    """Whose keys these are. What was found is believed for a minute, so that few requests ask the database.

    A key that this process revokes is forgotten at once; `forget_revoked`, called now and then, forgets what others do.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, tuple[Identity, datetime]] = {}
        self._looked_at = now()

    def remembered(self, key: str) -> Identity | None:
        """Without the database; None when it has to be asked."""
        identity, until = self._known.get(_hash(key), (None, None))
        return identity if until is not None and now() < until else None

    def find(self, key: str) -> Identity:
        """Raises Unauthorized when the key is unknown, revoked or expired."""
        if (identity := self.remembered(key)) is not None:
            return identity
        identity, expires_at = _authenticate(self._database, key)
        until = now() + BELIEVED
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[_hash(key)] = identity, min(until, expires_at or until)
        return identity

    def forget(self, *key_ids: str) -> None:
        for key_hash, (identity, _) in list(self._known.items()):
            if identity.key_id in key_ids:
                self._known.pop(key_hash, None)

    def forget_revoked(self) -> None:
        """Forgets what was revoked since it looked last; everything when the database cannot tell."""
        if not self._known:
            return
        since, self._looked_at = self._looked_at - CLOCKS_DIFFER, now()
        try:
            with self._database.read() as session:
                self.forget(*session.scalars(select(ApiKey.id).where(ApiKey.revoked_at >= since)))
        except Unavailable:
            self._known.clear()


def authenticate(database: Database, key: str) -> Identity:
    """Whose key this is; raises Unauthorized when it is unknown, revoked or expired."""
    return _authenticate(database, key)[0]


def _authenticate(database: Database, key: str) -> tuple[Identity, datetime | None]:
    found = again(lambda: _stored(database, key))
    if found is None or not _valid(found, now()):
        raise Unauthorized("The API key is missing or not valid.")
    again(lambda: _touch(database, found))
    return Identity(found.organization_id, found.id, frozenset(found.scopes)), found.expires_at


def _stored(database: Database, key: str) -> ApiKey | None:
    with database.read() as session:
        return session.scalar(select(ApiKey).where(ApiKey.key_hash == _hash(key)))


def create_key(
    session: Session,
    organization_id: str,
    name: str,
    scopes: Collection[str] = (),
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """A new key and its plaintext, which is kept nowhere; no scopes mean all but the admin ones."""
    check_name(name)
    unknown = sorted(set(scopes) - SCOPES)
    if unknown:
        raise BadInput(f"Unknown scope: {', '.join(unknown)}. Scopes are {', '.join(sorted(SCOPES))}.")
    plaintext = f"sk_{secrets.token_urlsafe(32)}"
    key = ApiKey(
        organization_id=organization_id,
        name=name,
        key_hash=_hash(plaintext),
        scopes=sorted(set(scopes) or ORDINARY_SCOPES),
        expires_at=expires_at,
    )
    session.add(key)
    session.flush()
    return key, plaintext


def bootstrap(database: Database, settings: Settings) -> None:
    """Makes the first organization and its admin key, written to DATA/admin-key; does nothing when they exist."""
    with database.read() as session:
        if find_organization(session, DEFAULT_ORGANIZATION):
            return
    with database.write() as session:
        if session.get_bind().dialect.name == "postgresql":
            session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": BOOTSTRAP_LOCK})
        if find_organization(session, DEFAULT_ORGANIZATION):
            return
        organization = create_organization(session, DEFAULT_ORGANIZATION)
        _, plaintext = create_key(session, organization.id, "first admin", {"admin", "super_admin"})
        write_private(settings.data / "admin-key", plaintext)  # before the commit: a key in no file opens nothing


def _hash(key: str) -> str:
    """SHA-256 is enough for a key of 256 random bits: there is nothing to guess."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _valid(key: ApiKey, at: datetime) -> bool:
    return key.revoked_at is None and (key.expires_at is None or key.expires_at > at)


def _touch(database: Database, key: ApiKey) -> None:
    """Keeps when the key was last used, to the minute, so that reading requests hardly ever write."""
    at = now()
    if key.last_used_at is not None and at - key.last_used_at < LAST_USED_RESOLUTION:
        return
    stale = or_(ApiKey.last_used_at.is_(None), ApiKey.last_used_at <= at - LAST_USED_RESOLUTION)
    with database.brief() as session:
        session.execute(update(ApiKey).where(ApiKey.id == key.id, stale).values(last_used_at=at, updated_at=at))
