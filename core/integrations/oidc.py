"""Sign-in by OpenID Connect: the authorization code flow with PKCE, what groups mean here, and the ends of sessions.

Requests go through the guarded client, which may call private addresses here: the operator names the provider.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from threading import BoundedSemaphore, Lock
from typing import Any
from urllib.parse import quote, urlencode

import structlog
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from joserfc.jwt import ClaimsOption
from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.identity.people import SIGN_OUT_LIFETIME, ProviderSignOut, SignedIn
from core.errors import BadInput, Forbidden, SpindleError, Unavailable
from core.infra.encryption import AssociatedData, KeyRing
from core.infra.http_client import CONNECT_SECONDS, MAX_BODY, TOTAL_SECONDS
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.infra.settings.sign_in import ROLES, Role
from core.infra.validation import is_storable
from core.tables import Organization
from pipelines.http_client import client
from pipelines.http_client.guard import ALL_NETWORKS, Guard
from pipelines.http_client.handles import TimeLimits

DISCOVERY = "/.well-known/openid-configuration"
DISCOVERY_SECONDS = 600.0  # until the provider's addresses are looked up again
ATTEMPT_SECONDS = 600  # for a person to sign in at the provider
CLOCK_SKEW_SECONDS = 60
KEYS_SECONDS = 10.0  # anybody may send logout tokens: so often do they make the service ask for the provider's keys
MOST_REQUESTS = 8  # at once: each holds a thread of the service, and anybody may begin one
PATIENCE_SECONDS = 1.0  # of others meanwhile
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
MAX_TEXT = 200
EXPIRED = "This sign-in has expired, or was begun in another browser or tab. Sign in again."
UNTRUSTED = "The provider's answer could not be trusted. Sign in again; if it happens again, tell your operator."
NO_ANSWER = "The provider does not answer. Try again in a moment, or sign in with a key."
_ATTEMPT = AssociatedData("console", "sign-in", "attempt")
_ID_TOKEN = AssociatedData("console", "sign-in", "ID token")
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """What the browser keeps, encrypted, while a person is at the provider: `target` is the page to open afterwards."""

    target: str
    redirect_uri: str
    state: str
    nonce: str
    verifier: str
    began_at: float  # seconds since 1970


class SignInProvider:
    """The provider that the settings name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._oidc = settings.oidc
        self._guard = Guard(ALL_NETWORKS, settings.own_endpoints)
        self._addresses: Mapping[str, Any] = {}
        self._looked_up_at = 0.0
        self._keys: KeySet | None = None
        self._keys_asked_at = -KEYS_SECONDS
        self._keys_turn = Lock()
        self._places = BoundedSemaphore(MOST_REQUESTS)

    def begin(self, redirect_uri: str, target: str) -> tuple[str, str]:
        """Return the provider's address for a person's sign-in, and the text that the browser keeps for `complete`."""
        texts = [secrets.token_urlsafe(32) for _ in range(3)]
        attempt = SignInAttempt(target, redirect_uri, *texts, began_at=time.time())
        digest = hashlib.sha256(attempt.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._oidc.client_id or "",
            "redirect_uri": redirect_uri,
            "scope": self._oidc.scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        address = str(self._look_up()["authorization_endpoint"])
        kept = self._make_key_ring().encrypt(json.dumps(asdict(attempt)), _ATTEMPT)
        return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}", kept

    def complete(
        self, kept: str, state: str, code: str, issuer: str | None
    ) -> tuple[SignInAttempt, Mapping[str, Any], str]:
        """Redeem the code; return the attempt, the proven claims about the person, and the encrypted ID token.

        Raises Forbidden for an answer to another attempt or of another provider, Unavailable where it does not answer.
        """
        attempt = self._open_attempt(kept)
        if not secrets.compare_digest(state.encode(), attempt.state.encode()):
            raise Forbidden(EXPIRED)
        if issuer is not None and issuer != self._look_up()["issuer"]:  # RFC 9207
            raise self._refuse(f"an answer of {issuer[:MAX_TEXT]}")
        tokens = self._redeem(code, attempt)
        id_token = str(tokens.get("id_token"))
        own: ClaimsOption = {"value": self._oidc.client_id or ""}
        nonce: ClaimsOption = {"essential": True, "value": attempt.nonce}
        claims = self._check_token(id_token, self._fetch_keys(), azp=own, nonce=nonce, sub={"essential": True})
        sealed = self._make_key_ring().encrypt(id_token, _ID_TOKEN)
        if {self._oidc.claim, "name"} <= claims.keys() or "userinfo_endpoint" not in self._look_up():
            return attempt, claims, sealed
        more = self._call("GET", "userinfo_endpoint", {"Authorization": f"Bearer {tokens.get('access_token')}"})
        if more.get("sub") != claims["sub"]:
            raise self._refuse("the user info is about another person")
        return attempt, {**more, **claims}, sealed

    def find_exit(self, id_token: str, back: str) -> str | None:
        """Return the provider's address that ends the session there and leads to `back`, if it has one.

        `id_token` is encrypted. Raises Conflict where it cannot be decrypted: the service has another key since.
        """
        address = self._look_up().get("end_session_endpoint")
        if not isinstance(address, str):
            return None
        hint = self._make_key_ring().decrypt(id_token, _ID_TOKEN)
        query = {"id_token_hint": hint, "client_id": self._oidc.client_id or "", "post_logout_redirect_uri": back}
        return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"

    def read_sign_out(self, token: str) -> ProviderSignOut:
        """Return whom a logout token of the provider signs out. Raises BadInput for one that does not prove it."""
        try:
            claims = self._check_token(token, self._get_recent_keys(), jti={"essential": True})
            events, subject, session = (claims.get(name) for name in ("events", "sub", "sid"))
            if not (isinstance(events, dict) and isinstance(events.get(LOGOUT_EVENT), dict)):
                raise self._refuse("a logout token without its event")
            if "nonce" in claims:
                raise self._refuse("a logout token with a nonce")
            if not (subject or session) or not isinstance(session, str | None):
                raise self._refuse("a logout token that names neither person nor session")
            if claims["iat"] < time.time() - SIGN_OUT_LIFETIME.total_seconds():
                raise self._refuse("an old logout token")
        except Forbidden as error:
            sentence = "The logout token is not a recent one of the provider for this service."
            raise BadInput(sentence, code="bad-logout-token") from error
        return ProviderSignOut(self._oidc.issuer or "", claims["jti"], subject, session)

    def find_rights(self, session: Session, claims: Mapping[str, Any]) -> SignedIn:
        """Return who signs in, with the organization and role of the groups. Raises Forbidden without any."""
        groups = claims.get(self._oidc.claim)
        named = set(map(str, groups)) if isinstance(groups, list) else {str(groups)}
        organization_id, role = self._map_groups(session, named)
        name = next(filter(None, (_read_text(claims, each) for each in ("name", "preferred_username", "email"))), None)
        subject = str(claims["sub"])
        if not is_storable(subject) or len(subject) > MAX_TEXT * 2:
            raise self._refuse("the subject cannot be stored")
        email = _read_text(claims, "email")
        return SignedIn(self._oidc.issuer or "", subject, name or subject[:MAX_TEXT], email, organization_id, role)

    def _map_groups(self, session: Session, groups: Collection[str]) -> tuple[str, Role | None]:
        mine = [each for each in self._oidc.groups if each.group in groups]
        if not mine:
            raise Forbidden("None of your groups at the provider may use this service. Ask your operator.")
        slug = mine[0].organization
        found = session.scalar(select(Organization.id).where(Organization.slug == slug))
        if found is None:
            log.error("SPINDLE_OIDC_GROUPS names an unknown organization", organization=slug)
            raise Forbidden("Your groups lead to an organization that does not exist here. Ask your operator.")
        roles: list[Role] = [each.role for each in mine if each.organization == slug and each.role is not None]
        return found, max(roles, key=ROLES.index, default=None)

    def _open_attempt(self, kept: str) -> SignInAttempt:
        try:
            attempt = SignInAttempt(**json.loads(self._make_key_ring().decrypt(kept, _ATTEMPT)))
        except (SpindleError, TypeError, ValueError) as error:
            raise Forbidden(EXPIRED) from error
        if time.time() - attempt.began_at > ATTEMPT_SECONDS:
            raise Forbidden(EXPIRED)
        return attempt

    def _redeem(self, code: str, attempt: SignInAttempt) -> Mapping[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": attempt.redirect_uri,
            "code_verifier": attempt.verifier,
            "client_id": self._oidc.client_id or "",
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if self._oidc.client_secret is not None:
            secret = self._oidc.client_secret.get_secret_value()
            if "client_secret_basic" in self._look_up().get(
                "token_endpoint_auth_methods_supported", ("client_secret_basic",)
            ):
                pair = f"{quote(form.pop('client_id'), safe='')}:{quote(secret, safe='')}"
                headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
            else:
                form["client_secret"] = secret
        return self._call("POST", "token_endpoint", headers, urlencode(form).encode())

    def _check_token(self, token: str, keys: KeySet, **claims: ClaimsOption) -> Mapping[str, Any]:
        """Return the claims of a token that is signed, by this provider, for this service, and has these claims."""
        expected = jwt.JWTClaimsRegistry(
            None,
            CLOCK_SKEW_SECONDS,
            iss={"essential": True, "value": str(self._look_up()["issuer"])},
            aud={"essential": True, "value": self._oidc.client_id or ""},
            exp={"essential": True},
            iat={"essential": True},
            **claims,
        )
        try:
            found = jwt.decode(token, keys, ALGORITHMS).claims
            expected.validate(found)
        except (JoseError, TypeError, ValueError, RecursionError) as error:
            raise self._refuse(f"{type(error).__name__}: {error}") from error
        return found

    def _get_recent_keys(self) -> KeySet:
        """Return keys that were asked for seconds ago at most. Raises Unavailable where the provider did not answer."""
        if not self._keys_turn.acquire(timeout=PATIENCE_SECONDS):
            raise Unavailable(NO_ANSWER)
        try:
            if time.monotonic() - self._keys_asked_at >= KEYS_SECONDS:
                self._keys, self._keys_asked_at = None, time.monotonic()
                self._keys = self._fetch_keys()
        finally:
            self._keys_turn.release()
        if self._keys is None:
            raise Unavailable(NO_ANSWER)
        return self._keys

    def _fetch_keys(self) -> KeySet:
        try:
            return KeySet.import_key_set({"keys": self._call("GET", "jwks_uri")["keys"]})
        except (JoseError, KeyError, TypeError, ValueError) as error:
            raise self._refuse(f"keys: {type(error).__name__}: {error}") from error

    def _look_up(self) -> Mapping[str, Any]:
        """Return the provider's discovery document. Raises Unavailable without a valid one."""
        if not self._addresses or time.monotonic() - self._looked_up_at > DISCOVERY_SECONDS:
            issuer = self._oidc.issuer or ""
            found = self._send("GET", f"{issuer.rstrip('/')}{DISCOVERY}", {})
            if str(found.get("issuer")).rstrip("/") != issuer.rstrip("/"):
                log.error("the provider calls itself otherwise", issuer=found.get("issuer"), expected=issuer)
                raise Unavailable("The provider is not the one that the operator has named. Tell your operator.")
            self._addresses, self._looked_up_at = found, time.monotonic()
        return self._addresses

    def _call(
        self, method: str, endpoint: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Mapping[str, Any]:
        address = self._look_up().get(endpoint)
        if not isinstance(address, str):
            raise Unavailable(f"The provider names no {endpoint}. Tell your operator.")
        return self._send(method, address, headers or {}, body)

    def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> Mapping[str, Any]:
        """Return a JSON object of the provider; raise Forbidden where it refuses, Unavailable where it fails."""
        limits = TimeLimits(CONNECT_SECONDS, TOTAL_SECONDS)
        headers = {"Accept": "application/json", **headers}
        if not self._places.acquire(timeout=PATIENCE_SECONDS):
            raise Unavailable(NO_ANSWER)
        try:
            answer = client.send_request(self._guard, method, url, headers, body, limits, MAX_BODY)
        finally:
            self._places.release()
        if answer.status is not None and 400 <= answer.status < 500 and method == "POST":
            raise self._refuse(f"status {answer.status}: {answer.body[:MAX_TEXT].decode(errors='replace')}")
        try:
            found: object = json.loads(answer.body) if answer.ok else None
        except ValueError:
            found = None
        if not isinstance(found, dict):
            log.error("the provider does not answer", url=url, status=answer.status, reason=answer.reason)
            raise Unavailable(NO_ANSWER)
        return found

    def _refuse(self, reason: str) -> Forbidden:
        log.warning("an answer of the provider was refused", reason=reason)
        return Forbidden(UNTRUSTED)

    def _make_key_ring(self) -> KeyRing:
        return KeyRing(load_service_key(self._settings))


def _read_text(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    return value.strip()[:MAX_TEXT] if isinstance(value, str) and is_storable(value) else None
