"""People of an organization, and their own keys."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from api.identity.schemas import KeyRecord, NewKey, build_new_key
from api.kit.auth import Admin, AnyKey, KeyRoute
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.pagination import PageOf
from api.kit.schemas import Nothing
from api.kit.services import ServicesOf
from api.kit.sessions import ReadSession, WriteSession
from api.people.schemas import PersonRecord
from core.definitions.identity import people
from core.definitions.identity.models import PersonalKeyCreate, PersonUpdate

router = APIRouter(prefix="/auth/people", tags=["auth"], route_class=KeyRoute)
PersonId = Annotated[str, Path(alias="personId", description="Id of the person.")]
KeyId = Annotated[str, Path(alias="keyId", description="Id of the API key.")]


@router.get("", summary="List the people of the organization")
def list_people(caller: Admin, session: ReadSession, page: PageOf) -> list[PersonRecord]:
    """Return all people that have signed in by the provider, with removed ones, the longest known first."""
    found = people.list_people(session, caller, limit=page.limit, after=page.after)
    return [PersonRecord.model_validate(each) for each in page.link_rows(found)]


@router.get("/me", summary="Read who the caller is", responses=answers(404))
def read_own_person(caller: AnyKey, session: ReadSession) -> PersonRecord:
    """Return the person of the session or of the personal key; 404 for a key of the organization."""
    return PersonRecord.model_validate(people.get_own_person(session, caller))


@router.get("/me/api-keys", summary="List the caller's personal keys", responses=answers(404))
def list_personal_keys(caller: AnyKey, session: ReadSession, page: PageOf) -> list[KeyRecord]:
    """Return the caller's own keys without their secrets, oldest first, also those that are revoked."""
    keys = people.list_personal_keys(session, caller, limit=page.limit, after=page.after)
    return [KeyRecord.model_validate(key) for key in page.link_rows(keys)]


@router.post(
    "/me/api-keys",
    dependencies=[REPLAYED],
    summary="Make a personal key; its secret is answered this once",
    responses=answers(404),
)
def make_personal_key(body: PersonalKeyCreate, caller: AnyKey, session: WriteSession) -> NewKey:
    """Create a key that acts under the caller's name, with scopes that the caller has.

    It never may more than the person's role, also when that changes, and ends when the person is removed.
    """
    return build_new_key(*people.create_personal_key(session, caller, body))


@router.delete("/me/api-keys/{keyId}", summary="Revoke a personal key", responses=answers(404))
def delete_personal_key(key_id: KeyId, caller: AnyKey, session: WriteSession, services: ServicesOf) -> Nothing:
    """Refuse one of the caller's own keys from now on. Its record stays."""
    people.revoke_personal_key(session, services.keys, caller, key_id)
    return Nothing()


@router.put("/{personId}", summary="Change a person's role", responses=answers(404, 409))
def update_person(
    person_id: PersonId, body: PersonUpdate, caller: Admin, session: WriteSession, services: ServicesOf
) -> PersonRecord:
    """Give another role, which ends the person's sessions. Where groups at the provider decide it, this is 409."""
    return PersonRecord.model_validate(people.change_role(session, services.keys, caller, person_id, body))


@router.delete("/{personId}", summary="Remove a person", responses=answers(404))
def delete_person(person_id: PersonId, caller: Admin, session: WriteSession, services: ServicesOf) -> Nothing:
    """End the person's sessions and revoke the personal keys at once. The person cannot sign in until readmitted."""
    people.remove_person(session, services.keys, caller, person_id)
    return Nothing()


@router.post("/{personId}/readmit", summary="Let a removed person sign in again", responses=answers(404))
def readmit_person(person_id: PersonId, caller: Admin, session: WriteSession) -> PersonRecord:
    """Let a person who was removed sign in again. Former keys stay revoked."""
    return PersonRecord.model_validate(people.readmit_person(session, caller, person_id))
