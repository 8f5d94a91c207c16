"""Recorded logins: who may name one, what an execution gets of it, and what nobody reads."""

from __future__ import annotations

import json

import pytest

from core.errors import BadInput, Conflict
from core.lifecycle.executions.reports import fail
from core.lifecycle.executions.spec import build_spec, load_driver_secrets
from core.tables import CloudCredential
from driver.secrets import Secrets
from pipelines.login import LOGIN_VARIABLE, MAX_LOGIN_LENGTH
from tests.support.shop import Shop

SECRET, TOKEN = "canary-of-the-cookie", "canary-of-the-storage"
PIPELINE = """
fetch: {url: "http://shop.example/"}
pipeline: [{stage: extract, args: [{selector: h1, as: name}]}]
spindle: {login: members}
"""


def write_state(secret: str = SECRET) -> str:
    cookie = {"name": "sid", "value": secret, "domain": "shop.example", "path": "/"}
    item = {"name": "state", "value": json.dumps({"token": TOKEN})}
    return json.dumps({"cookies": [cookie], "origins": [{"origin": "http://shop.example", "localStorage": [item]}]})


def keep_login(shop: Shop, secret: str = SECRET, **values: object) -> str:
    return shop.add_credential(**{"name": "members", "provider": "login", "api_secret": write_state(secret), **values})


def test_a_pipeline_that_names_a_login_gets_it_masked_and_as_no_parameter(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = keep_login(shop)
    shop.write_pipeline(PIPELINE)
    execution = shop.submit()
    with shop.database.read() as session:
        assert SECRET not in json.dumps(session.get_one(CloudCredential, login).secrets)
    values = load_driver_secrets(shop.settings, execution)
    assert values[LOGIN_VARIABLE] == write_state()
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    spec = build_spec(shop.settings, shop.storage, shop.reload(execution))
    secrets = Secrets(spec)
    assert SECRET not in spec.model_dump_json()
    assert secrets.mask(f"{SECRET} {TOKEN}") == "******** ********"
    hidden = {LOGIN_VARIABLE: f"${{{LOGIN_VARIABLE}}}"}
    assert secrets.reveal(hidden) == hidden
    shop.write_pipeline(f"fetch: {{url: 'http://a.test/${{{LOGIN_VARIABLE}}}'}}\n{PIPELINE.partition('}')[2]}")
    with pytest.raises(BadInput) as error:
        shop.submit()
    assert [each.code for each in error.value.details] == ["missing-parameter"]


def test_a_retry_takes_the_login_as_it_is_then_and_others_get_none(shop: Shop) -> None:
    login = keep_login(shop)
    shop.write_pipeline(PIPELINE)
    execution = shop.submit()
    shop.change_credential(login, api_secret=write_state("canary-of-a-newer-one"))
    fail(shop.database, execution.id, "It broke.")
    values = load_driver_secrets(shop.settings, shop.retry(execution))
    assert values[LOGIN_VARIABLE] == write_state("canary-of-a-newer-one")
    shop.write_pipeline(PIPELINE.partition("spindle:")[0])
    assert LOGIN_VARIABLE not in load_driver_secrets(shop.settings, shop.submit())


def test_a_login_of_another_organization_is_unknown_and_a_disabled_one_refused(shop: Shop, other_shop: Shop) -> None:
    keep_login(other_shop)
    keep_login(shop, everywhere=True)
    shop.write_pipeline(PIPELINE)
    with pytest.raises(BadInput, match="There is no login 'members'") as unknown:
        shop.submit()
    assert unknown.value.details[0].code == "unknown-credential"
    keep_login(shop, enabled=False)
    with pytest.raises(Conflict) as disabled:
        shop.submit()
    assert disabled.value.details[0].code == "credential-disabled"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{}", "nobody was logged in"),
        (f"[{SECRET}", "this text is no JSON"),
        (json.dumps({"cookies": [{"name": "sid", "value": SECRET}]}), "A cookie of a login has name, value, domain"),
        (write_state("x" * MAX_LOGIN_LENGTH), "longer than 98304 characters"),
    ],
)
def test_what_is_no_login_is_refused_without_its_text(shop: Shop, text: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence) as error:
        keep_login(shop, api_secret=text)
    assert SECRET not in str(error.value)


def test_secrets_of_other_providers_are_as_short_as_before(shop: Shop) -> None:
    with pytest.raises(BadInput, match="'apiSecret' is longer than 16384 characters"):
        keep_login(shop, provider="openai", api_secret="x" * 20_000)
