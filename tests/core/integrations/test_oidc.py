"""What a provider's answers are held to before anybody is signed in."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from core.errors import Forbidden, SpindleError, Unavailable
from core.infra.settings import Settings
from core.integrations.oidc import ATTEMPT_SECONDS, SignInProvider
from tests.support.cases import each_case
from tests.support.servers import Handler, serve

CALLBACK = "http://127.0.0.1/console/sign-in/provider/callback"
KEY, OTHER_KEY = (RSAKey.generate_key(2048, {"kid": "one"}) for _ in range(2))
CURVE_KEY = ECKey.generate_key("P-256", {"kid": "two"})
SECRET = OctKey.generate_key(256, {"kid": "one"})


@dataclass
class Provider:
    """A provider that answers what a test tells it to."""

    url: str = ""
    nonce: str = ""
    claims: dict[str, Any] = field(default_factory=dict[str, Any])
    header: dict[str, Any] = field(default_factory=lambda: {"alg": "RS256", "kid": "one"})
    key: Any = field(default_factory=lambda: KEY)
    user_info: dict[str, Any] = field(default_factory=dict[str, Any])
    discovery: dict[str, Any] = field(default_factory=dict[str, Any])
    statuses: dict[str, int] = field(default_factory=dict[str, int])
    requests: list[str] = field(default_factory=list[str])

    def change(self, **changes: Any) -> None:
        """Be a good provider but for these changes."""
        vars(self).update(vars(Provider(self.url)) | changes)

    def answer(self, path: str) -> Any:
        if path == "/keys":
            return KeySet([KEY, CURVE_KEY]).as_dict(private=False)
        if path == "/user":
            return self.user_info
        if path == "/token":
            at = int(time.time())
            claims = {"iss": self.url, "aud": "spindle", "sub": "ann", "nonce": self.nonce, "iat": at, "exp": at + 60}
            claims = {name: value for name, value in (claims | self.claims).items() if value is not None}
            unsigned = ".".join(_encode(part) for part in (self.header, claims)) + "."
            signs = self.header["alg"] != "none"
            token = jwt.encode(self.header, claims, self.key, ["RS256", "HS256", "ES256"]) if signs else unsigned
            return {"access_token": "x", "token_type": "Bearer", "id_token": token}
        endpoints = {"authorization_endpoint": "/begin", "token_endpoint": "/token", "jwks_uri": "/keys"}
        endpoints["userinfo_endpoint"] = "/user"
        return {"issuer": self.url, **{name: self.url + path for name, path in endpoints.items()}} | self.discovery


def _encode(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


@pytest.fixture
def provider() -> Generator[Provider]:
    given = Provider()

    class Answers(Handler):
        def do_GET(self) -> None:
            self.read_body()
            given.requests.append(self.headers.get("Authorization", ""))
            body = json.dumps(given.answer(self.path))
            self.respond(given.statuses.get(self.path, 200), body, "application/json")

        do_POST = do_GET

    with serve(Answers) as given.url:
        yield given


def sign_in(provider: Provider, folder: Path) -> Any:
    settings = Settings(
        data=folder,
        secret_key="k" * 32,
        oidc_issuer=provider.url,
        oidc_client_id="spindle",
        oidc_client_secret="of the: client",
        oidc_groups="staff=default:viewer",
    )
    own = SignInProvider(settings)
    address, kept = own.begin(CALLBACK, "/console")
    query = parse_qs(urlsplit(address).query)
    assert (query["code_challenge_method"], len(query["code_challenge"][0])) == (["S256"], 43)
    provider.nonce = query["nonce"][0]
    return own.complete(kept, query["state"][0], "code")[1]


def test_the_claims_of_a_valid_token_are_returned(provider: Provider, tmp_path: Path) -> None:
    provider.claims = {"name": "Ann", "groups": ["staff"], "aud": ["spindle"]}
    assert sign_in(provider, tmp_path)["groups"] == ["staff"]
    assert "Basic c3BpbmRsZTpvZiUyMHRoZSUzQSUyMGNsaWVudA==" in provider.requests
    provider.key, provider.header = CURVE_KEY, {"alg": "ES256", "kid": "two"}
    assert sign_in(provider, tmp_path)["sub"] == "ann"


def test_claims_that_the_token_lacks_are_those_of_the_user_info(provider: Provider, tmp_path: Path) -> None:
    provider.user_info = {"sub": "ann", "groups": ["staff"], "iss": "another"}
    claims = sign_in(provider, tmp_path)
    assert (claims["groups"], claims["iss"]) == (["staff"], provider.url)
    provider.user_info = {"sub": "eve", "groups": ["staff"]}
    with pytest.raises(Forbidden):
        sign_in(provider, tmp_path)


@each_case(
    "changes",
    [
        {"claims": {"iss": "https://evil.test"}},
        {"claims": {"aud": "another"}},
        {"claims": {"aud": ["another"]}},
        {"claims": {"aud": None}},
        {"claims": {"aud": ["spindle", "another"], "azp": "another"}},
        {"claims": {"nonce": "another"}},
        {"claims": {"nonce": None}},
        {"claims": {"exp": 1}},
        {"claims": {"exp": None}},
        {"claims": {"iat": 2**33}},
        {"claims": {"sub": None}},
        {"claims": {"sub": 7}},
        {"key": OTHER_KEY},
        {"key": SECRET, "header": {"alg": "HS256", "kid": "one"}},
        {"header": {"alg": "none"}},
        {"header": {"alg": "RS256", "kid": "unknown"}},
        {"statuses": {"/token": 400}},
    ],
)
def test_a_token_that_proves_nothing_is_refused(provider: Provider, tmp_path: Path, changes: dict[str, Any]) -> None:
    provider.change(**changes)
    with pytest.raises(Forbidden):
        sign_in(provider, tmp_path)


@each_case(
    "changes",
    [
        {"discovery": {"issuer": "https://evil.test"}},
        {"discovery": {"jwks_uri": None}},
        {"statuses": {"/keys": 500}},
        {"statuses": {"/token": 503}},
        {"statuses": {"/.well-known/openid-configuration": 404}},
    ],
)
def test_a_provider_that_fails_is_told_from_a_person_who_may_not(
    provider: Provider, tmp_path: Path, changes: dict[str, Any]
) -> None:
    provider.change(**changes)
    with pytest.raises(Unavailable):
        sign_in(provider, tmp_path)


def test_an_attempt_ends(provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.time
    monkeypatch.setattr("core.integrations.oidc.time.time", lambda: began() - ATTEMPT_SECONDS)
    known = {"oidc_issuer": provider.url, "oidc_client_id": "a", "oidc_groups": "a=b"}
    settings = Settings(data=tmp_path, secret_key="k" * 32, **known)
    own = SignInProvider(settings)
    address, kept = own.begin(CALLBACK, "/console")
    monkeypatch.undo()
    with pytest.raises(SpindleError, match="expired"):
        own.complete(kept, parse_qs(urlsplit(address).query)["state"][0], "code")
