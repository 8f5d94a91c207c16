"""A Dex with one person on loopback: SPINDLE_TEST_DEX is the path of its program, which knows sessions (after 2.45)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from tests.support.service import PATIENCE_SECONDS, free_port, wait_until

LOGIN, PASSWORD, GROUP = "ann@example.test", "password", "staff"
PASSWORD_HASH = "$2a$10$2b2cU8CPhOTaGrs1HRQuAueS7JTT5ZHsHSzYiFPm1leZck7Mc8T4W"
CLIENT = {"id": "spindle", "name": "Spindle", "secret": "secret-of-the-client"}


@dataclass(frozen=True)
class Dex:
    """A Dex that is not running yet: it asks for the addresses of the service that people sign in to."""

    program: str
    folder: Path
    url: str

    def settings(self) -> dict[str, Any]:
        client = {"oidc_client_id": CLIENT["id"], "oidc_client_secret": CLIENT["secret"]}
        scopes = "openid profile email groups"
        return {"oidc_issuer": self.url, "oidc_scopes": scopes, "oidc_groups": f"{GROUP}=default:admin"} | client

    @contextmanager
    def serve(self, service: str) -> Generator[None]:
        back = f"{service}/console/sign-in/provider/callback"
        client = CLIENT | {
            "redirectURIs": [back],
            "postLogoutRedirectURIs": [back],
            "backchannelLogoutURI": f"{service}/console/sign-in/provider/sign-out",
        }
        person = {"email": LOGIN, "hash": PASSWORD_HASH, "username": "Ann", "userID": "1", "groups": [GROUP]}
        known = {
            "issuer": self.url,
            "storage": {"type": "memory"},
            "web": {"http": self.url.removeprefix("http://").removesuffix("/dex")},
            "oauth2": {"skipApprovalScreen": True},
            "sessions": {},
            "enablePasswordDB": True,
            "staticPasswords": [person],
            "staticClients": [client],
        }
        config = self.folder / "dex.json"
        config.write_text(json.dumps(known))
        environment = os.environ | {"DEX_SESSIONS_ENABLED": "true"}
        with (
            (self.folder / "dex.log").open("w") as log,
            subprocess.Popen([self.program, "serve", str(config)], env=environment, stdout=log, stderr=log) as process,
        ):
            try:
                wait_until(self._answers, PATIENCE_SECONDS)
                yield
            finally:
                process.terminate()

    def sign_in(self, browser: httpx.Client, address: str) -> httpx.Response:
        """Sign in at the page to which the address leads; return the answer of the service."""
        form = browser.get(address, follow_redirects=True)
        at = str(form.url)
        return browser.post(urljoin(at, at), data={"login": LOGIN, "password": PASSWORD}, follow_redirects=True)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/.well-known/openid-configuration").is_success
        except httpx.TransportError:
            return False


def choose_dex(folder: Path) -> Dex:
    """Return a Dex at a free port; skip the test without its program."""
    program = os.environ.get("SPINDLE_TEST_DEX")
    if program is None:
        pytest.skip("SPINDLE_TEST_DEX is not the path of a Dex")
    return Dex(program, folder, f"http://127.0.0.1:{free_port()}/dex")
