"""What the command line asks a running Spindle, over REST alone."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from core.infra.settings import Settings

TIMEOUT_SECONDS = 30
UNAUTHORIZED, TOO_MANY_REQUESTS = 401, 429
NEGATIVE = 3
"""Exit code of a command that worked and whose finding is a no: an execution failed, a dry run would change things."""


class ClientError(Exception):
    """What went wrong, as a sentence for the person at the terminal; it never holds a key."""


class Unreachable(ClientError):
    """Nothing answers at the address; it may be starting."""


@dataclass(frozen=True, slots=True)
class Connection:
    """Where Spindle is and which key opens it, as far as the caller told; the rest is that of a server beside us.

    A server that runs has left its address in its data folder.
    """

    url: str | None
    key: str | None
    data: Path

    @property
    def service_url(self) -> str:
        """The address of the operations: a bare host gets the paths that the settings name."""
        settings = Settings(data=self.data)
        if self.url is None:
            address = self.data / "address"
            return address.read_text() if address.exists() else settings.service_url
        try:
            bare = urlsplit(self.url).path in ("", "/")
        except ValueError:
            raise ClientError(f"{self.url} is not an address.") from None
        paths = f"{settings.root_path}/{settings.service_segment}/api"
        return self.url.rstrip("/") + (paths if bare else "")

    def api_key(self) -> str:
        if self.key:
            return self.key.strip()
        try:
            return (self.data / "admin-key").read_text().strip()
        except OSError:
            sentence = "There is no API key. Give one in SPINDLE_KEY or with --key"
            raise ClientError(f"{sentence}; without, the one in {self.data / 'admin-key'} is used.") from None


class Client:
    """Calls operations and hands out their JSON; raises ClientError with a sentence for whatever goes wrong."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def get(self, path: str, **params: Any) -> Any:
        """Waits and asks again where the key has made its requests of this minute."""
        while (response := self._send("GET", path, params=params)).status_code == TOO_MANY_REQUESTS:
            time.sleep(int(response.headers.get("Retry-After", "1")))
        return self._json(response)

    def post(self, path: str, body: Any) -> Any:
        return self._json(self._send("POST", path, json=body))

    def put(self, path: str, body: Any) -> Any:
        return self._json(self._send("PUT", path, json=body))

    def delete(self, path: str) -> None:
        self._json(self._send("DELETE", path))

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        try:
            return self._http.request(method, path, **request)
        except httpx.UnsupportedProtocol:
            raise ClientError(f"{self._http.base_url} is not an address of http or https.") from None
        except httpx.TimeoutException:
            raise Unreachable(f"Spindle at {self._http.base_url} did not answer in {TIMEOUT_SECONDS} s.") from None
        except httpx.TransportError as error:
            sentence = f"Spindle cannot be reached at {self._http.base_url} ({error})."
            raise Unreachable(f"{sentence} Start it with `spindle up`, or name another with --url.") from None

    def _json(self, response: httpx.Response) -> Any:
        try:
            body = response.json()
            if response.is_success:
                return body
            sentence = str(body["error"])
        except (ValueError, LookupError, TypeError):
            what = f"{response.status_code} to {response.request.method} {response.url}"
            raise ClientError(f"This is not how Spindle answers: {what}. Look at --url.") from None
        if response.status_code == UNAUTHORIZED:
            sentence += " Give another one in SPINDLE_KEY or with --key."
        details = [f"  {each['path']}: {each['message']}" for each in body.get("details", ())]
        raise ClientError("\n".join([sentence, *(line for line in details if not line.endswith(f": {sentence}"))]))


@contextmanager
def connect(connection: Connection) -> Generator[Client]:
    key = connection.api_key()
    if not (key.isascii() and key.isprintable()):
        raise ClientError("The API key is not one of Spindle's: it has characters that none of them has.")
    try:
        http = httpx.Client(base_url=connection.service_url, headers={"X-API-Key": key}, timeout=TIMEOUT_SECONDS)
    except httpx.InvalidURL as error:
        raise ClientError(f"{connection.url} is not an address: {error}.") from None
    with http:
        yield Client(http)
