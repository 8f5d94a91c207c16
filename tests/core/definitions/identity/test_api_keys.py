from __future__ import annotations

import multiprocessing
from datetime import timedelta

import pytest
from pydantic import SecretStr
from sqlalchemy import text, update

from core.definitions.identity.api_keys import Identity, KeyCache, bootstrap, create_key
from core.definitions.identity.roles import ORDINARY_SCOPES
from core.definitions.identity.service import revoke_own_key
from core.errors import BadInput, Unauthorized
from core.infra.database import Database, open_database
from core.infra.settings import Settings
from core.tables import ApiKey, Organization, now
from tests.support.cases import each_case
from tests.support.shop import Shop


def authenticate(database: Database, key: str) -> Identity:
    return KeyCache(database).authenticate_uncached(key)


def make_key(shop: Shop, **fields: object) -> tuple[ApiKey, str]:
    with shop.database.write() as session:
        return create_key(session, shop.organization_id, "test", **fields)  # type: ignore[arg-type]


def test_a_key_identifies_its_caller(shop: Shop) -> None:
    key, plaintext = make_key(shop, scopes=["etl:read"])
    assert plaintext.startswith("sk_")
    assert authenticate(shop.database, plaintext) == Identity(shop.organization_id, key.id, frozenset({"etl:read"}))


def test_without_scopes_it_gets_all_but_the_admin_ones(shop: Shop) -> None:
    _, plaintext = make_key(shop)
    assert authenticate(shop.database, plaintext).scopes == ORDINARY_SCOPES


def test_a_stolen_database_yields_no_key(shop: Shop) -> None:
    _, plaintext = make_key(shop)
    with shop.database.read() as session:
        stored = session.execute(text("SELECT * FROM api_keys")).all()
    assert plaintext not in str(stored)
    assert plaintext.removeprefix("sk_") not in str(stored)


@each_case("key", ["", "sk_unknown", "x" * 100_000, "\0", "\ud800", "ключ"])
def test_an_unknown_key_is_refused(shop: Shop, key: str) -> None:
    with pytest.raises(Unauthorized):
        authenticate(shop.database, key)


def test_revoked_and_expired_keys_are_refused_like_unknown_ones(shop: Shop) -> None:
    told: set[str] = set()
    for column, at in (("revoked_at", now()), ("expires_at", now())):
        key, plaintext = make_key(shop)
        with shop.database.write() as session:
            session.execute(update(ApiKey).where(ApiKey.id == key.id).values({column: at}))
        with pytest.raises(Unauthorized) as error:
            authenticate(shop.database, plaintext)
        told.add(error.value.sentence)
    with pytest.raises(Unauthorized) as error:
        authenticate(shop.database, "sk_unknown")
    assert told == {error.value.sentence}


def test_a_key_works_until_it_expires(shop: Shop) -> None:
    _, plaintext = make_key(shop, expires_at=now() + timedelta(minutes=1))
    assert authenticate(shop.database, plaintext)


def test_last_use_is_kept_to_the_minute(shop: Shop) -> None:
    key, plaintext = make_key(shop)
    authenticate(shop.database, plaintext)
    with shop.database.read() as session:
        first = session.get_one(ApiKey, key.id).last_used_at
    authenticate(shop.database, plaintext)
    with shop.database.read() as session:
        assert session.get_one(ApiKey, key.id).last_used_at == first
    assert first is not None


def test_admin_implies_all_inside_the_organization() -> None:
    admin = Identity("o", "k", frozenset({"admin"}))
    assert all(admin.may(scope) for scope in ORDINARY_SCOPES)
    assert not admin.may("super_admin")
    assert not Identity("o", "k", frozenset({"etl:read"})).may("etl:write")


def test_an_unknown_scope_is_refused(shop: Shop) -> None:
    with pytest.raises(BadInput, match="etl:everything"):
        make_key(shop, scopes=["etl:everything"])


def start(settings: Settings) -> None:
    database = open_database(settings)
    bootstrap(database, settings)
    database.close()


@pytest.mark.long
def test_processes_that_start_at_once_make_one_organization_and_one_key(settings: Settings, database: Database) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=start, args=(settings,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 3
    with database.read() as session:
        assert session.query(Organization).count() == session.query(ApiKey).count() == 1
    path = settings.data / "admin-key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert authenticate(database, path.read_text()).admin


def test_starting_again_keeps_the_key(settings: Settings, database: Database) -> None:
    bootstrap(database, settings)
    key = (settings.data / "admin-key").read_text()
    bootstrap(database, settings)
    assert (settings.data / "admin-key").read_text() == key
    assert authenticate(database, key)


def test_a_new_database_takes_the_admin_key_of_the_settings(settings: Settings, database: Database) -> None:
    bootstrap(database, settings.replace(admin_key=SecretStr("sk_" + 32 * "a")))
    assert not (settings.data / "admin-key").exists()
    assert authenticate(database, "sk_" + 32 * "a").admin


def test_a_revoked_key_leaves_the_cache_once_that_is_committed(shop: Shop) -> None:
    _, plaintext = make_key(shop)
    cache = KeyCache(shop.database)
    caller = cache.authenticate(plaintext)
    with shop.database.write() as session:
        revoke_own_key(session, cache, caller, caller.key_id)
        assert cache.get(plaintext) == caller
    assert cache.get(plaintext) is None
