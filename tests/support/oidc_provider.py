"""A provider of OpenID Connect on loopback, in a process of its own, which refuses a code without its PKCE verifier.

`python -m tests.support.oidc_provider` serves oidc-provider-mock on a free port, and prints its address.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.support.service import PATIENCE_SECONDS

CLIENT_ID, CLIENT_SECRET = "spindle", "secret-of-the-client"


@dataclass(frozen=True)
class OidcProvider:
    """The running provider; `url` is its issuer."""

    url: str

    def settings(self, **changes: Any) -> dict[str, Any]:
        """The settings of a service whose people sign in here."""
        return {"oidc_issuer": self.url, "oidc_client_id": CLIENT_ID, "oidc_client_secret": CLIENT_SECRET} | changes

    def set_person(self, subject: str, *groups: str, **claims: Any) -> None:
        claims = {"name": subject.title(), "email": f"{subject}@example.test", "groups": list(groups)} | claims
        httpx.put(f"{self.url}/users/{subject}", json=claims, timeout=PATIENCE_SECONDS).raise_for_status()

    def allow(self, address: str, subject: str) -> str:
        """Sign in at the provider's page, as its form does; return where it leads the browser then."""
        answer = httpx.post(address, data={"sub": subject}, timeout=PATIENCE_SECONDS)
        assert answer.status_code == 302, answer.text
        return answer.headers["Location"]

    def sign_logout(self, **claims: Any) -> str:
        """Return a logout token; the provider itself sends none."""
        at = int(time.time())
        known: dict[str, Any] = {"iss": self.url, "aud": CLIENT_ID, "iat": at, "exp": at + 120, "jti": str(uuid4())}
        known["events"] = {"http://schemas.openid.net/event/backchannel-logout": {}}
        answer = httpx.post(f"{self.url}/logout-tokens", json=known | claims, timeout=PATIENCE_SECONDS)
        return answer.raise_for_status().text


@contextmanager
def serve_provider() -> Generator[OidcProvider]:
    environment = os.environ | {"AUTHLIB_INSECURE_TRANSPORT": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "tests.support.oidc_provider"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield OidcProvider(process.stdout.readline().strip())
        finally:
            process.terminate()


class _Pkce:
    """Remembers the challenge of each code that is issued, and lets no code be redeemed without its verifier."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app
        self._challenges: dict[str, str] = {}

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/oauth2/token" and not self._proves(environ):
            start_response("400 Bad Request", [("Content-Type", "application/json")])
            return [b'{"error": "invalid_grant"}']
        query = parse_qs(environ["QUERY_STRING"])

        def start_noted(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            code = parse_qs(urlsplit(dict(headers).get("Location", "")).query).get("code")
            if code and query.get("code_challenge_method") == ["S256"]:
                [self._challenges[code[0]]] = query["code_challenge"]
            return start_response(status, headers, *more)

        return self._app(environ, start_noted)

    def _proves(self, environ: dict[str, Any]) -> bool:
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        environ["wsgi.input"] = io.BytesIO(body)
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        return self._challenges.get(form.get("code", "")) == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def main() -> None:
    import flask
    import oidc_provider_mock

    app = oidc_provider_mock.app(require_nonce=True)

    @app.post("/logout-tokens")
    def sign_logout_token() -> str:
        key = RSAKey.import_key(flask.g.oidc_provider_mock_storage.jwk.as_dict(is_private=True))
        return jwt.encode({"alg": "RS256", "kid": key.kid, "typ": "logout+jwt"}, flask.request.json or {}, key)

    assert callable(sign_logout_token)
    with make_server("127.0.0.1", 0, _Pkce(app), handler_class=_Quiet) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
