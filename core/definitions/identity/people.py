"""People who have signed in by a provider: their organization, their role, their own keys, and their removal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import delete, or_, select, update
from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import ApiKeyRepository, Identity, KeyCache, create_key, identify_person
from core.definitions.identity.console_sessions import end_sessions_of_person, hash_secret
from core.definitions.identity.models import PersonalKeyCreate, PersonUpdate
from core.errors import BadInput, Conflict, Forbidden, NotFound
from core.infra.database import build_upsert, execute_update
from core.infra.repository import Repository
from core.infra.settings.sign_in import Role
from core.tables import ApiKey, ConsoleSession, Person, ProviderToken, now

LONGEST_KEY = timedelta(days=366)
SIGN_OUT_LIFETIME = timedelta(minutes=10)  # in which a provider's sign-out counts, once


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Whom a provider has identified. Without a role, it is chosen here and begins as viewer."""

    issuer: str
    subject: str
    name: str
    email: str | None
    organization_id: str
    role: Role | None


@dataclass(frozen=True, slots=True)
class ProviderSignOut:
    """Whom a provider has signed out: all sessions of a person, or the one with the provider's own id of it."""

    issuer: str
    token_id: str
    subject: str | None
    session: str | None


class PersonRepository(Repository[Person]):
    """The people of one organization."""

    row = Person
    noun = "person"

    def list(self, *, limit: int | None = None, after: str | None = None) -> Sequence[Person]:
        return self._fetch_page(self._select(), limit, after)

    def get(self, person_id: str) -> Person:
        return self._fetch_by_id(person_id)


def store_person(session: Session, cache: KeyCache, found: SignedIn) -> Person:
    """Create or update the person who signs in. Raises Forbidden for one whom an admin has removed.

    With another organization, the keys of the former one are revoked.
    """
    query = select(Person).where(Person.issuer == found.issuer, Person.subject == found.subject)
    person = session.scalar(query.with_for_update())
    if person is None:
        person = Person(issuer=found.issuer, subject=found.subject, organization_id=found.organization_id)
        person.role = found.role or "viewer"
        session.add(person)
    elif person.organization_id != found.organization_id:
        _end_access(session, cache, person)
        person.organization_id, person.role = found.organization_id, found.role or "viewer"
        person.removed_at = None
    elif person.removed_at is not None:
        raise Forbidden("An admin of your organization has removed you. Ask one to readmit you.")
    elif found.role is not None and found.role != person.role:
        _set_role(session, cache, person, found.role)
    person.name, person.email, person.role_from_provider = found.name, found.email, found.role is not None
    person.last_seen_at = now()
    session.flush()
    return person


def follow_sign_out(session: Session, cache: KeyCache, found: ProviderSignOut) -> Sequence[Identity]:
    """End the sessions that a provider has ended, and return whose they were; personal keys stay.

    Raises BadInput for a sign-out that has been followed already.
    """
    session.execute(delete(ProviderToken).where(ProviderToken.expires_at <= now()))
    mark = {"id_hash": hash_secret(found.token_id), "expires_at": now() + 2 * SIGN_OUT_LIFETIME}
    if not execute_update(session, build_upsert(session, ProviderToken).values(mark).on_conflict_do_nothing()):
        raise BadInput("This logout token has been used.", code="bad-logout-token")
    own = select(ConsoleSession.token_hash, Person).join(Person, Person.id == ConsoleSession.person_id)
    own = own.where(Person.issuer == found.issuer)
    if found.subject is not None:
        own = own.where(Person.subject == found.subject)
    if found.session is not None:
        named = ConsoleSession.provider_session_hash == hash_secret(found.session)
        unknown = ConsoleSession.provider_session_hash.is_(None)
        own = own.where(named if found.subject is None else or_(named, unknown))
    ended = session.execute(own).tuples().all()
    tokens = [token for token, _ in ended]
    session.execute(delete(ConsoleSession).where(ConsoleSession.token_hash.in_(tokens)))
    people = {person.id: identify_person(person) for _, person in ended}
    cache.remove_after_commit(session, *people)
    return [*people.values()]


def list_people(
    session: Session, caller: Identity, *, limit: int | None = None, after: str | None = None
) -> Sequence[Person]:
    return PersonRepository(session, caller.organization_id).list(limit=limit, after=after)


def get_own_person(session: Session, caller: Identity) -> Person:
    """Return the caller; raise NotFound for a key that is nobody's."""
    if caller.person_id is None:
        raise NotFound("This key belongs to no person: sign in to the console by the provider.")
    return PersonRepository(session, caller.organization_id).get(caller.person_id)


def change_role(session: Session, cache: KeyCache, caller: Identity, person_id: str, changes: PersonUpdate) -> Person:
    """Give a person another role, which ends the sessions; raise Conflict where the provider decides the role."""
    person = PersonRepository(session, caller.organization_id).get(person_id)
    if person.role_from_provider:
        sentence = "The groups at the provider decide this person's role (SPINDLE_OIDC_GROUPS). Change the groups."
        raise Conflict(sentence, path="role")
    if person.role != changes.role:
        _set_role(session, cache, person, changes.role)
    return person


def remove_person(session: Session, cache: KeyCache, caller: Identity, person_id: str) -> None:
    """End the sessions and keys of a person, who cannot sign in again until an admin readmits the person."""
    person = PersonRepository(session, caller.organization_id).get(person_id)
    person.removed_at = person.removed_at or now()
    _end_access(session, cache, person)


def readmit_person(session: Session, caller: Identity, person_id: str) -> Person:
    """Let a person who was removed sign in again; former keys stay revoked."""
    person = PersonRepository(session, caller.organization_id).get(person_id)
    person.removed_at = None
    session.flush()
    return person


def list_personal_keys(
    session: Session, caller: Identity, *, limit: int | None = None, after: str | None = None
) -> Sequence[ApiKey]:
    person = get_own_person(session, caller)
    return ApiKeyRepository(session, caller.organization_id).list(limit=limit, after=after, person_id=person.id)


def create_personal_key(session: Session, caller: Identity, new: PersonalKeyCreate) -> tuple[ApiKey, str]:
    """Create a key of the caller's own; return it and its plaintext. Raises Forbidden for scopes beyond the role."""
    person = get_own_person(session, caller)
    if new.expires_at <= now():
        raise BadInput("The key would have expired already.", code="past-time", path="expiresAt")
    if new.expires_at > now() + LONGEST_KEY:
        raise BadInput(f"A personal key lasts {LONGEST_KEY.days} days at most.", path="expiresAt")
    scopes = caller.scopes if new.scopes is None else set(new.scopes)
    if beyond := sorted(scopes - caller.scopes):
        raise Forbidden(f"Your role lacks the scope {', '.join(beyond)}.", code="missing-scope", path="scopes")
    return create_key(session, caller.organization_id, new.name, scopes, new.expires_at, person_id=person.id)


def revoke_personal_key(session: Session, cache: KeyCache, caller: Identity, key_id: str) -> None:
    """Revoke a key of the caller's own; those of others are unknown."""
    person = get_own_person(session, caller)
    ApiKeyRepository(session, caller.organization_id).revoke(key_id, person_id=person.id)
    cache.remove_after_commit(session, key_id)


def _set_role(session: Session, cache: KeyCache, person: Person, role: Role) -> None:
    person.role, person.rights_changed_at = role, now()
    end_sessions_of_person(session, person.id)
    session.flush()
    cache.remove_after_commit(session, person.id)


def _end_access(session: Session, cache: KeyCache, person: Person) -> None:
    """End all sessions, and revoke all keys."""
    at = person.rights_changed_at = now()
    end_sessions_of_person(session, person.id)
    session.execute(
        update(ApiKey).where(ApiKey.person_id == person.id, ApiKey.revoked_at.is_(None)).values(revoked_at=at)
    )
    session.flush()
    cache.remove_after_commit(session, person.id)
