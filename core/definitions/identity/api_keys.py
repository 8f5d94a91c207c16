"""API keys: stored as hashes, bound to one organization, with scopes; and who a key or a session identifies."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sqlalchemy import event, or_, select, text, union_all, update
from sqlalchemy.orm import Session

from core.definitions.identity.console_sessions import find_session_owner, hash_secret, is_session, renew_session
from core.definitions.identity.organizations import create_organization, find_organization
from core.definitions.identity.roles import ADMIN, ORDINARY_SCOPES, ROLES, SCOPES, SUPER_ADMIN
from core.errors import BadInput, Unauthorized, Unavailable
from core.infra.database import Database
from core.infra.repository import Repository
from core.infra.secrets import write_private
from core.infra.settings import Settings
from core.infra.validation import check_name
from core.tables import ApiKey, Person, now

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
    """An authenticated caller: a key or a person of one organization.

    A person in a session of the console has the own id in place of that of a key; a personal key has both.
    """

    organization_id: str
    key_id: str
    scopes: frozenset[str]
    person_id: str | None = None
    name: str = field(default="", compare=False)

    @property
    def admin(self) -> bool:
        return bool(self.scopes & {ADMIN, SUPER_ADMIN})

    @property
    def owner_id(self) -> str:
        """Whom private categories belong to: the person, whichever key is used, else the key."""
        return self.person_id or self.key_id

    @property
    def viewer_key_id(self) -> str | None:
        """The owner whose private categories are visible besides the public ones; an admin sees all with None."""
        return None if self.admin else self.owner_id

    def may(self, scope: str) -> bool:
        """Return whether the key has the scope; `admin` implies every scope except `super_admin`."""
        return scope in self.scopes or (self.admin and scope != SUPER_ADMIN)


class ApiKeyRepository(Repository[ApiKey]):
    """The keys of one organization, without their secrets."""

    row = ApiKey
    noun = "API key"

    def list(
        self, *, limit: int | None = None, after: str | None = None, person_id: str | None = None
    ) -> Sequence[ApiKey]:
        """Return keys, with a `person_id` those of the person."""
        query = self._select() if person_id is None else self._select().where(ApiKey.person_id == person_id)
        return self._fetch_page(query, limit, after)

    def revoke(self, key_id: str, *, person_id: str | None = None) -> None:
        """Revoke the key for ever; its record stays. With a `person_id`, keys of others are unknown."""
        key = self._fetch_by_id(key_id)
        if person_id is not None and key.person_id != person_id:
            raise self._not_found()
        key.revoked_at = key.revoked_at or now()
        self.session.flush()


class KeyCache:
    """Authenticates keys and remembers the result for a minute, so that few requests read the database.

    A key revoked by this process is removed at once; `remove_revoked`, called periodically, removes those that other
    processes revoked, and people whose rights they changed. The token of a session of the console counts as its key or
    person, and is remembered for a few seconds.
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

    def remove(self, *ids: str) -> None:
        """Remove keys, and people with their keys."""
        for key_hash, (identity, _) in list(self._entries.items()):
            if identity.key_id in ids or identity.person_id in ids:
                self._entries.pop(key_hash, None)

    def remove_after_commit(self, session: Session, *ids: str) -> None:
        """Do the same as soon as the transaction is committed."""

        def remove(_session: Session) -> None:
            self.remove(*ids)

        event.listen(session, "after_commit", remove, once=True)

    def remove_revoked(self) -> None:
        """Remove keys revoked and people changed since the last call, or all when the database does not answer."""
        if not self._entries or self._idle.is_resting():
            return
        since, self._refreshed_at = self._refreshed_at - CLOCK_SKEW, now()
        revoked = select(ApiKey.id).where(ApiKey.revoked_at >= since)
        changed = select(Person.id).where(Person.rights_changed_at >= since)
        try:
            with self._database.read() as session:
                self.remove(*session.scalars(union_all(revoked, changed)))
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
    person_id: str | None = None,
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
        person_id=person_id,
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


def _authenticate(database: Database, secret: str) -> tuple[Identity, datetime | None]:
    """Return the identity and the key's expiry."""
    with database.read() as session:
        key, person = find_session_owner(session, secret) if is_session(secret) else _find_key(session, secret)
    if not _is_valid(key, person, now()):
        raise Unauthorized("The API key is missing or not valid.")
    _update_last_used(database, key, person)
    return _build_identity(key, person), key and key.expires_at


def _find_key(session: Session, secret: str) -> tuple[ApiKey | None, Person | None]:
    query = select(ApiKey, Person).outerjoin(Person, Person.id == ApiKey.person_id)
    found = session.execute(query.where(ApiKey.key_hash == hash_secret(secret))).tuples().one_or_none()
    return found or (None, None)


def _is_valid(key: ApiKey | None, person: Person | None, at: datetime) -> bool:
    if key is not None and (key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= at)):
        return False
    if person is None:
        return key is not None and key.person_id is None
    return person.removed_at is None and (key is None or key.organization_id == person.organization_id)


def _build_identity(key: ApiKey | None, person: Person | None) -> Identity:
    """Return whom a valid key, person or personal key identifies; a personal key never has more than the role."""
    if person is None:
        assert key is not None  # noqa: S101 - one of them is valid
        return Identity(key.organization_id, key.id, frozenset(key.scopes), name=key.name)
    own = identify_person(person)
    return own if key is None else replace(own, key_id=key.id, scopes=own.scopes & frozenset(key.scopes))


def identify_person(person: Person) -> Identity:
    """Return the person as a caller, with the scopes of the role."""
    role: frozenset[str] = ROLES[person.role]  # pyright: ignore[reportArgumentType] - stored from a Role
    return Identity(person.organization_id, person.id, role, person.id, person.name)


def _update_last_used(database: Database, key: ApiKey | None, person: Person | None) -> None:
    """Store the time of use to the minute, so that few requests write."""
    at = now()
    old = at - LAST_USED_RESOLUTION
    if (key is None or _is_recent(key.last_used_at, old)) and (person is None or _is_recent(person.last_seen_at, old)):
        return
    with database.write(durable=False) as session:
        if key is not None:
            stale = or_(ApiKey.last_used_at.is_(None), ApiKey.last_used_at <= old)
            session.execute(update(ApiKey).where(ApiKey.id == key.id, stale).values(last_used_at=at, updated_at=at))
        if person is not None:
            session.execute(update(Person).where(Person.id == person.id).values(last_seen_at=at, updated_at=at))


def _is_recent(used_at: datetime | None, old: datetime) -> bool:
    return used_at is not None and used_at > old
