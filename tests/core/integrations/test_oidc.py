"""What a provider's answers are held to before anybody is signed in."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Semaphore
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey
from pydantic import SecretStr

from core.definitions.identity.people import SIGN_OUT_LIFETIME, ProviderSignOut
from core.errors import BadInput, Conflict, Forbidden, SpindleError, Unavailable
from core.infra.encryption import AssociatedData, KeyRing
from core.infra.secrets import hash_key
from core.infra.settings import Settings
from core.integrations import oidc
from core.integrations.oidc import ATTEMPT_SECONDS, CLOCK_SKEW_SECONDS, LOGOUT_EVENT, MOST_REQUESTS, SignInProvider
from pipelines.http_client import client
from tests.support.cases import each_case
from tests.support.servers import Handler, serve
from tests.support.service import PATIENCE_SECONDS

CALLBACK = "http://127.0.0.1/console/sign-in/provider/callback"
KEY, OTHER_KEY = (RSAKey.generate_key(2048, {"kid": "one"}) for _ in range(2))
CURVE_KEY = ECKey.generate_key("P-256", {"kid": "two"})
SECRET = OctKey.generate_key(256, {"kid": "one"})


@dataclass
class Provider:
    """A provider that answers what a test tells it to."""

    url: str = ""
    nonce: str = ""
    issuer: str | None = None  # in the address of the answer
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

    def sign(self, claims: dict[str, Any]) -> str:
        """Return a token with the claims, those that are None left out."""
        claims = {name: value for name, value in claims.items() if value is not None}
        if self.header["alg"] == "none":
            return ".".join(_encode(part) for part in (self.header, claims)) + "."
        return jwt.encode(self.header, claims, self.key, ["RS256", "HS256", "ES256"])

    def sign_logout(self, **changes: Any) -> str:
        at = int(time.time())
        claims = {"iss": self.url, "aud": "spindle", "iat": at, "exp": at + 120, "jti": "one", "sub": "ann", "sid": "s"}
        return self.sign(claims | {"events": {LOGOUT_EVENT: {}}} | changes)

    def answer(self, path: str) -> Any:
        if path == "/keys":
            return KeySet([KEY, CURVE_KEY]).as_dict(private=False)
        if path == "/user":
            return self.user_info
        if path == "/token":
            at = int(time.time())
            claims = {"iss": self.url, "aud": "spindle", "sub": "ann", "nonce": self.nonce, "iat": at, "exp": at + 60}
            return {"access_token": "x", "token_type": "Bearer", "id_token": self.sign(claims | self.claims)}
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


def open_service(provider: Provider, folder: Path) -> SignInProvider:
    settings = Settings(
        data=folder,
        secret_key="k" * 32,
        oidc_issuer=provider.url,
        oidc_client_id="spindle",
        oidc_client_secret="of the: client",
        oidc_groups="staff=default:viewer",
    )
    return SignInProvider(settings)


def sign_in(provider: Provider, folder: Path) -> Any:
    own = open_service(provider, folder)
    address, kept = own.begin(CALLBACK, "/console")
    query = parse_qs(urlsplit(address).query)
    assert (query["code_challenge_method"], len(query["code_challenge"][0])) == (["S256"], 43)
    provider.nonce = query["nonce"][0]
    return own.complete(kept, query["state"][0], "code", provider.issuer)[1]


def test_the_claims_of_a_valid_token_are_returned(provider: Provider, tmp_path: Path) -> None:
    provider.claims = {"name": "Ann", "groups": ["staff"], "aud": ["spindle"]}
    assert sign_in(provider, tmp_path)["groups"] == ["staff"]
    assert "Basic c3BpbmRsZTpvZiUyMHRoZSUzQSUyMGNsaWVudA==" in provider.requests
    provider.issuer = provider.url
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
        {"issuer": "https://evil.test"},
        {"issuer": ""},
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
        own.complete(kept, parse_qs(urlsplit(address).query)["state"][0], "code", None)


def test_a_logout_token_tells_whom_the_provider_signs_out(provider: Provider, tmp_path: Path) -> None:
    own = open_service(provider, tmp_path)
    for subject, session in (("ann", "s"), ("ann", None), (None, "s")):
        token = provider.sign_logout(sub=subject, sid=session)
        assert own.read_sign_out(token) == ProviderSignOut(provider.url, "one", subject, session)
    assert len(provider.requests) == 2  # for the addresses and the keys


@each_case(
    ("changes", "claims"),
    [
        ({}, {"iss": "https://evil.test"}),
        ({}, {"iss": None}),
        ({}, {"aud": "another"}),
        ({}, {"aud": ["another"]}),
        ({}, {"aud": None}),
        ({}, {"iat": None}),
        ({}, {"iat": 2**33}),
        ({}, {"iat": int(time.time() - SIGN_OUT_LIFETIME.total_seconds()) - 10}),
        ({}, {"exp": None}),
        ({}, {"exp": int(time.time()) - CLOCK_SKEW_SECONDS}),
        ({}, {"jti": None}),
        ({}, {"jti": ""}),
        ({}, {"jti": 7}),
        ({}, {"events": None}),
        ({}, {"events": {}}),
        ({}, {"events": [LOGOUT_EVENT]}),
        ({}, {"events": {LOGOUT_EVENT: True}}),
        ({}, {"events": {"http://schemas.openid.net/event/another": {}}}),
        ({}, {"nonce": "n"}),
        ({}, {"nonce": ""}),
        ({}, {"sub": None, "sid": None}),
        ({}, {"sub": 7}),
        ({}, {"sid": 7}),
        ({"key": OTHER_KEY}, {}),
        ({"key": SECRET, "header": {"alg": "HS256", "kid": "one"}}, {}),
        ({"header": {"alg": "none"}}, {}),
        ({"header": {"alg": "RS256", "kid": "unknown"}}, {}),
    ],
)
def test_a_logout_token_that_proves_nothing_is_refused(
    provider: Provider, tmp_path: Path, changes: dict[str, Any], claims: dict[str, Any]
) -> None:
    provider.change(**changes)
    with pytest.raises(BadInput):
        open_service(provider, tmp_path).read_sign_out(provider.sign_logout(**claims))


def test_what_is_no_token_is_refused(provider: Provider, tmp_path: Path) -> None:
    deep = base64.urlsafe_b64encode(b"[" * 9000).decode()
    own = open_service(provider, tmp_path)
    for token in ("", "x", "a.b.c", f"{deep}.{deep}.x", "\ud800.\ud800.x", provider.sign({"alg": "RS256"})):
        with pytest.raises(BadInput):
            own.read_sign_out(token)
    assert len(provider.requests) == 2


def test_many_logout_tokens_ask_for_the_keys_once_also_where_there_is_no_answer(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, token = open_service(provider, tmp_path), provider.sign_logout()
    with ThreadPoolExecutor(8) as pool:
        assert len({*pool.map(own.read_sign_out, [token] * 8)}) == 1
    assert len(provider.requests) == 2
    provider.statuses = {"/keys": 503}
    monkeypatch.setattr(oidc, "KEYS_SECONDS", 0)
    with pytest.raises(Unavailable):
        own.read_sign_out(token)
    monkeypatch.undo()
    for _ in range(3):
        with pytest.raises(Unavailable):
            own.read_sign_out(token)
    assert len(provider.requests) == 3


def test_a_provider_that_hangs_holds_few_threads(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = open_service(provider, tmp_path)
    monkeypatch.setattr(oidc, "PATIENCE_SECONDS", 0.01)
    hanging, goes_on = Semaphore(0), Event()

    def hang(*_: object) -> None:
        hanging.release()
        goes_on.wait(PATIENCE_SECONDS)
        raise Unavailable("at last")

    monkeypatch.setattr(client, "send_request", hang)
    with ThreadPoolExecutor(MOST_REQUESTS) as pool:
        begun = [pool.submit(own.begin, CALLBACK, "/console") for _ in range(MOST_REQUESTS)]
        for _ in begun:
            assert hanging.acquire(timeout=PATIENCE_SECONDS)
        with pytest.raises(Unavailable, match="does not answer"):
            own.begin(CALLBACK, "/console")
        goes_on.set()


def test_a_provider_may_have_an_address_to_sign_out(provider: Provider, tmp_path: Path) -> None:
    assert open_service(provider, tmp_path).find_exit("", CALLBACK) is None
    provider.discovery = {"end_session_endpoint": f"{provider.url}/end?a=b"}
    own = open_service(provider, tmp_path)
    token = KeyRing(hash_key(SecretStr("k" * 32))).encrypt("token", AssociatedData("console", "sign-in", "ID token"))
    address = own.find_exit(token, CALLBACK)
    known = {"id_token_hint": ["token"], "client_id": ["spindle"], "post_logout_redirect_uri": [CALLBACK]}
    assert (address or "").startswith(f"{provider.url}/end?a=b&")
    assert parse_qs(urlsplit(address or "").query) == {"a": ["b"]} | known
    with pytest.raises(Conflict):
        own.find_exit("token", CALLBACK)
