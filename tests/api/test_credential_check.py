"""Testing a credential asks its provider and tells what that said, and never a secret."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api import Api, Server
from tests.support.providers import GOOD, Providers, serve_providers

AWS = {"accessKeyId": "AKIAEXAMPLE", "region": "eu-central-1"}
# provider, where it is, what its credential has beside the key, which field the key is, the answer to a bad key
PROVIDERS: list[tuple[str, str, dict[str, str], str, int, str]] = [
    ("OPENAI", "/openai/v1", {}, "apiKey", 401, "Incorrect API key provided"),
    ("TOGETHERAI", "/together/v1", {}, "apiKey", 401, "Incorrect API key provided"),
    ("HUGGING_FACE", "/huggingface", {}, "apiKey", 401, "Invalid credentials"),
    ("ANTHROPIC", "/anthropic", {}, "apiKey", 401, "invalid x-api-key"),
    ("GOOGLE_SEARCH", "/google", {"engineId": "engine"}, "apiKey", 400, "API key not valid"),
    ("BING_SEARCH", "/bing", {}, "apiKey", 401, "invalid subscription key"),
    ("STEEL_DEV", "/steel", {}, "apiKey", 401, "Unauthorized"),
    ("AWS", "/sts", AWS, "secretAccessKey", 403, "signature we calculated does not match"),
]


@pytest.fixture(scope="module")
def found() -> Iterator[Providers]:
    with serve_providers() as found:
        yield found


@pytest.mark.parametrize(
    ("provider", "path", "fields", "field", "status", "reason"), PROVIDERS, ids=lambda v: str(v)[:14]
)
def test_the_provider_says_whether_the_key_is_good(
    acme: Api, found: Providers, provider: str, path: str, fields: dict[str, str], field: str, status: int, reason: str
):
    credential = {"provider": provider, "endpoint": found.url + path, **fields}
    stored = acme.post("/cloud-credentials", {**credential, field: GOOD})["id"]
    good = acme.post("/cloud-credentials/test", {"credentialId": stored})
    assert (good["success"], good["status"], good["provider"]) == (True, 200, provider)
    assert good["milliseconds"] >= 0
    assert acme.post("/cloud-credentials/test", {"id": stored})["success"]
    secret = "bad-key-9876543210-secret"
    answer = acme.call("POST", "/cloud-credentials/test", json={**credential, field: secret})
    bad = answer.json()
    assert (bad["success"], bad["status"]) == (False, status)
    assert reason in bad["message"]
    assert secret[:5] not in answer.text
    assert not [asked for asked in found.asked if GOOD in asked or secret in asked]


def test_a_provider_without_a_question_says_so(acme: Api):
    verdict = acme.post("/cloud-credentials/test", {"provider": "azure", "apiKey": "x"})
    assert (verdict["success"], verdict["status"]) == (False, None)
    assert "cannot be checked" in verdict["message"]
    unknown = acme.post("/cloud-credentials/test", {"provider": "Nobody Knows", "apiKey": "x"})
    assert (unknown["success"], unknown["status"]) == (False, None)
    assert unknown["message"].startswith("NOBODY_KNOWS is no provider that the service knows")


@pytest.mark.parametrize(
    ("body", "status", "where"),
    [
        ({}, 400, "credentialId"),
        ({"provider": "OPENAI"}, 400, "apiKey"),
        ({"provider": "GOOGLE_SEARCH", "apiKey": "x"}, 400, "engineId"),
        ({"provider": "OPENAI", "apiKey": "x", "endpoint": "file:///etc/passwd"}, 400, "endpoint"),
        ({"provider": "OPENAI", "apiKey": "x\r\nHost: other"}, 400, "apiKey"),
        ({"provider": "OPENAI", "apiKey": "schl\u00fcssel"}, 400, "apiKey"),
        (AWS | {"provider": "AWS", "apiSecret": "x", "region": "eu\r\nX-Other: y"}, 400, "region"),
        (AWS | {"provider": "AWS", "apiSecret": "x", "region": "x.example/"}, 400, "region"),
        (AWS | {"provider": "AWS", "apiSecret": "x", "region": "x.example#"}, 400, "region"),
        ({"credentialId": "unknown"}, 404, None),
    ],
)
def test_an_invalid_check_is_an_error(acme: Api, body: dict[str, str], status: int, where: str | None):
    answer = acme.call("POST", "/cloud-credentials/test", json=body)
    assert answer.status_code == status
    if where:
        assert answer.json()["details"][0]["path"] == where


def test_an_answer_too_deep_to_be_read_is_a_verdict_without_a_reason(acme: Api, found: Providers):
    body = {"provider": "OPENAI", "apiKey": "x", "endpoint": f"{found.url}/deep"}
    assert acme.post("/cloud-credentials/test", body)["message"] == "OPENAI answered 401."


def test_private_addresses_are_not_asked(acme: Api):
    body = {"provider": "OPENAI", "apiKey": "x", "endpoint": "http://169.254.169.254/v1"}
    verdict = acme.post("/cloud-credentials/test", body)
    assert (verdict["success"], verdict["status"]) == (False, None)
    assert "metadata address" in verdict["message"]


def test_a_provider_that_is_away_is_a_verdict(acme: Api):
    body: dict[str, Any] = {"provider": "OPENAI", "apiKey": "x", "endpoint": "http://127.0.0.1:9/v1"}
    assert "could not connect to 127.0.0.1:9" in acme.post("/cloud-credentials/test", body)["message"]


def test_another_organizations_credential_and_a_readers_key_are_refused(acme: Api, rival: Api, server: Server):
    stored = acme.post("/cloud-credentials", {"provider": "OPENAI", "apiKey": GOOD})["id"]
    assert rival.call("POST", "/cloud-credentials/test", json={"credentialId": stored}).status_code == 404
    reader = server.caller(acme.organization_id, "etl:read")
    assert reader.call("POST", "/cloud-credentials/test", json={"credentialId": stored}).status_code == 403
