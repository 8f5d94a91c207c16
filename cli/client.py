"""The REST client of the commands."""

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
NEGATIVE_RESULT = 3
"""Exit code of a command that worked with a negative result: an execution failed, a dry run found changes."""


class ClientError(Exception):
    """A failure, as a sentence for the user; it never contains a key."""


class AtLimit(ClientError):
    """The server has no room at the moment, or takes no more requests of the key."""

    def __init__(self, sentence: str, code: str | None) -> None:
        super().__init__(sentence)
        self.code = code


class Unreachable(ClientError):
    """Nothing answers at the address: the server may be starting."""


@dataclass(frozen=True, slots=True)
class Connection:
    """The server's address and API key; the data folder of a local instance has both when they are not given."""

    url: str | None
    key: str | None
    data: Path

    @property
    def service_url(self) -> str:
        """The base URL of the operations; a URL without a path gets the paths of the settings."""
        settings = Settings(data=self.data)
        if self.url is None:
            try:
                return (self.data / "address").read_text()
            except OSError:
                sentence = f"No server was found in {_name_folder(self.data)}"
                raise ClientError(f"{sentence}. Start one with `spindle up`, or use --data or --url.") from None
        try:
            bare = urlsplit(self.url).path in ("", "/")
        except ValueError:
            raise ClientError(f"{self.url} is not an address.") from None
        paths = f"{settings.api.root_path}/{settings.api.service_segment}/api"
        return self.url.rstrip("/") + (paths if bare else "")

    def read_api_key(self) -> str:
        if self.key:
            return self.key.strip()
        try:
            return (self.data / "admin-key").read_text().strip()
        except OSError:
            sentence = "There is no API key. Set SPINDLE_KEY or use --key"
            raise ClientError(f"{sentence}; the default, {self.data / 'admin-key'}, does not exist.") from None


def _name_folder(data: Path) -> str:
    return str(data) if data.is_absolute() else f"./{data}"


class Client:
    """Call operations and return their JSON; raise ClientError for every failure."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def get(self, path: str, **params: Any) -> Any:
        """Get a resource; repeat the request after the rate limit's delay."""
        while (response := self._send("GET", path, params=params)).status_code == TOO_MANY_REQUESTS:
            time.sleep(int(response.headers.get("Retry-After", "1")))
        return self._read_json(response)

    def post(self, path: str, body: Any, timeout: int = TIMEOUT_SECONDS, **params: Any) -> Any:
        return self._read_json(self._send("POST", path, json=body, params=params, timeout=timeout))

    def post_and_wait(self, path: str, body: Any, seconds: int, **params: Any) -> Any:
        """Post to an operation that answers within so many seconds more than others."""
        return self.post(path, body, timeout=TIMEOUT_SECONDS + seconds, wait=seconds, **params)

    def put(self, path: str, body: Any) -> Any:
        return self._read_json(self._send("PUT", path, json=body))

    def delete(self, path: str) -> None:
        self._read_json(self._send("DELETE", path))

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        try:
            return self._http.request(method, path, **request)
        except httpx.UnsupportedProtocol:
            raise ClientError(f"{self._http.base_url} is not an address of http or https.") from None
        except httpx.TimeoutException:
            raise Unreachable(f"Spindle at {self._http.base_url} did not answer in {TIMEOUT_SECONDS} s.") from None
        except httpx.TransportError as error:
            sentence = f"Spindle cannot be reached at {self._http.base_url} ({error})."
            raise Unreachable(f"{sentence} Start it with `spindle up`, or give another address with --url.") from None

    def _read_json(self, response: httpx.Response) -> Any:
        if response.is_success and not response.content:
            return {}
        try:
            body = response.json()
            if response.is_success:
                return body
            sentence = str(body["error"])
        except (ValueError, LookupError, TypeError):
            answer = f"{response.status_code} to {response.request.method} {response.url}"
            raise ClientError(f"The server does not answer like Spindle: {answer}. Check --url.") from None
        lines = [
            f"{each['path']}: {each['message']}" if each["path"] else each["message"]
            for each in body.get("details", ())
        ]
        lines = [f"  {line}" for line in lines if line != sentence and not line.endswith(f": {sentence}")]
        if response.status_code == UNAUTHORIZED:
            sentence += " Set another key in SPINDLE_KEY or with --key."
        if response.status_code == TOO_MANY_REQUESTS:
            raise AtLimit(sentence, next((each.get("code") for each in body.get("details", ())), None))
        raise ClientError("\n".join([sentence, *lines]))


@contextmanager
def connect(connection: Connection) -> Generator[Client]:
    base_url = connection.service_url
    key = connection.read_api_key()
    if not (key.isascii() and key.isprintable()):
        raise ClientError("The API key is not one of Spindle's: it contains other characters than those.")
    try:
        http = httpx.Client(base_url=base_url, headers={"X-API-Key": key}, timeout=TIMEOUT_SECONDS)
    except httpx.InvalidURL as error:
        raise ClientError(f"{connection.url} is not an address: {error}.") from None
    with http:
        yield Client(http)
