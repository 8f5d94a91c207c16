"""JSON requests to a provider, with its errors as exceptions that reveal no key."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from core.definitions.credentials.check import extract_reason, mask_secrets
from core.infra.http_client import open_stream, send_request
from core.infra.settings import Settings
from core.training.providers.protocol import ProviderRefused, ProviderUnavailable, ProviderUnreadable
from pipelines.http_client.client import FileBody, HttpResponse

MAX_ANSWER = 16 * 2**20
RETRYABLE = frozenset({408, 425, 429})  # besides 5xx
JSON = {"Content-Type": "application/json"}
BOUNDARY = "spindle-0b7d1f6c9a3e4d52"


class ProviderClient:
    """Sends requests to one provider's address, with its key as a bearer token."""

    def __init__(self, settings: Settings, title: str, address: str, fields: Mapping[str, str]) -> None:
        self._settings = settings
        self._fields = fields
        self._title = title
        self.address = address.rstrip("/")

    def get(self, path: str) -> Any:
        return self.read_json(self.send("GET", path, {}))

    def post(self, path: str, body: Any = None) -> Any:
        return self.read_json(self.send("POST", path, JSON, json.dumps(body or {}).encode()))

    def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | FileBody | None = None,
        accepted: int | None = None,
    ) -> HttpResponse:
        """Send a request to a path, or without the key to the address of another server.

        Raise unless the status is below 400, or the one that is accepted.
        """
        url = path if urlsplit(path).scheme else self.address + path
        own = url.startswith(f"{self.address}/")
        sent = {**(self._authorize() if own else {}), **headers}
        response = send_request(self._settings, method, url, sent, body, MAX_ANSWER)
        if response.status is None or response.status != accepted:
            self._check(response)
        return response

    def post_form(self, path: str, fields: Mapping[str, str], file: tuple[str, Path] | None = None) -> HttpResponse:
        """Send a form, with a file as its part `file` that is read while it is sent."""
        parts = [
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in fields.items()
        ]
        content_type = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
        end = f"\r\n--{BOUNDARY}--\r\n".encode()
        if file is None:
            return self.send("POST", path, content_type, "".join(parts).encode() + end)
        name, source = file
        kind = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        start = ("".join(parts) + kind + "Content-Type: application/jsonl\r\n\r\n").encode()
        with open(source, "rb") as content:
            size = len(start) + os.fstat(content.fileno()).st_size + len(end)
            return self.send("POST", path, content_type, FileBody(_Chain(BytesIO(start), content, BytesIO(end)), size))

    def open_stream(self, path: str) -> Generator[bytes]:
        """Return the body of a GET request, as it arrives."""
        response, chunks = open_stream(self._settings, self.address + path, self._authorize())
        self._check(response)
        return chunks

    def read_json(self, response: HttpResponse) -> Any:
        try:
            return json.loads(response.body)
        except (ValueError, RecursionError) as error:
            raise self.make_unreadable() from error

    def read_id(self, record: Any, field: str = "id") -> str:
        """Return the id in an answer, which must have one."""
        found = get_text(record, field)
        if found is None:
            raise self.make_unreadable()
        return found

    def cancel(self, path: str, has_ended: Callable[[], bool]) -> None:
        """Cancel a job by a path; a refusal is no error where the job has ended."""
        try:
            self.post(path)
        except ProviderRefused:
            if not has_ended():
                raise

    def make_unreadable(self) -> ProviderUnreadable:
        """Return the error for an answer without the fields that it must have."""
        return ProviderUnreadable(f"{self._title} answered something that cannot be read.")

    def _authorize(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._fields['api_key']}"}

    def _check(self, response: HttpResponse) -> None:
        if response.failure == "no-http":
            raise self.make_unreadable()
        if response.status is None:
            reason = mask_secrets(response.error or "It did not answer.", self._fields)
            raise ProviderUnavailable(f"{self._title} did not answer. {reason}")
        if response.status < 400:
            return
        reason = mask_secrets(extract_reason(response.body), self._fields)
        sentence = f"{self._title} answered {response.status}" + (f": {reason}" if reason else ".")
        if response.status in RETRYABLE or response.status >= 500:
            raise ProviderUnavailable(sentence)
        raise ProviderRefused(sentence)


def get_text(record: Any, name: str) -> str | None:
    """Return a field of a JSON object if it is a text that is not empty."""
    value = cast(dict[str, Any], record).get(name) if isinstance(record, dict) else None
    return value if isinstance(value, str) and value else None


def get_whole(record: Any, name: str) -> int | None:
    """Return a field of a JSON object if it is a whole number."""
    value = cast(dict[str, Any], record).get(name) if isinstance(record, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def get_records(answer: Any, name: str = "data") -> list[dict[str, Any]]:
    """Return the objects of a list, or of the list in a field of an object."""
    found: Any = cast(dict[str, Any], answer).get(name) if isinstance(answer, dict) else answer
    if not isinstance(found, list):
        return []
    return [cast(dict[str, Any], each) for each in cast(list[Any], found) if isinstance(each, dict)]


class _Chain:
    """Streams that are read one after the other."""

    def __init__(self, *streams: BinaryIO) -> None:
        self._streams = [*streams]

    def read(self, size: int = -1, /) -> bytes:
        while self._streams:
            if chunk := self._streams[0].read(size):
                return chunk
            self._streams.pop(0)
        return b""
