"""People's rights in the caches of processes that did not change them."""

from __future__ import annotations

from datetime import timedelta

from core.definitions.identity.api_keys import Identity, KeyCache, create_key
from core.definitions.identity.console_sessions import begin_session
from core.definitions.identity.models import PersonUpdate
from core.definitions.identity.people import SignedIn, change_role, remove_person, store_person
from core.definitions.identity.roles import ROLES
from core.tables import Person, now
from tests.support.shop import Shop


def make_person(shop: Shop, subject: str) -> Person:
    found = SignedIn("https://id.test", subject, subject.title(), None, shop.organization_id, None)
    with shop.database.write() as session:
        return store_person(session, KeyCache(shop.database), found)


def test_other_processes_drop_the_rights_of_a_person_that_have_changed(shop: Shop) -> None:
    admin = Identity(shop.organization_id, "admin", frozenset({"admin"}))
    for end in (remove_person, change_role):
        person = make_person(shop, end.__name__)
        with shop.database.write() as session:
            token = begin_session(session, person_id=person.id)
            scopes, ends_at = ROLES["viewer"], now() + timedelta(days=1)
            _, key = create_key(session, shop.organization_id, "own", scopes, ends_at, person_id=person.id)
        here, elsewhere = KeyCache(shop.database), KeyCache(shop.database)
        assert elsewhere.authenticate(token).scopes == elsewhere.authenticate(key).scopes == ROLES["viewer"]
        with shop.database.write() as session:
            if end is remove_person:
                remove_person(session, here, admin, person.id)
            else:
                change_role(session, here, admin, person.id, PersonUpdate(role="editor"))
        assert elsewhere.get(token) is not None
        elsewhere.remove_revoked()
        assert (elsewhere.get(token), elsewhere.get(key)) == (None, None)
