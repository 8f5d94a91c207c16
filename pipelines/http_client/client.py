"""Single requests to addresses that users name: guarded, and limited in time and size.

Only `open_stream` follows redirects; the guard checks the address of every connection.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal, Protocol
from urllib.parse import urlsplit

import pycurl

from pipelines.http_client.failures import NO_HTTP, describe_curl_error, get_host
from pipelines.http_client.guard import Guard
from pipelines.http_client.handles import GuardedSockets, TimeLimits, limit_time, make_handle

SILENT_SECONDS = 60  # without a byte, after which a long transfer is given up
MAX_REDIRECTS = 5
BUFFERED_BYTES = 2**20  # of a stream that its reader has not taken
# one sentence for both cases, so that callers cannot learn which names a private network knows
UNKNOWN_HOST = "there is no such host, or this service may not call it"


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


Failure = Literal["refused", "no-http"]  # those after which programs do something else


class StreamBroken(Exception):
    """The connection of a stream broke; the message is the clause that is the reason."""

    def __init__(self, reason: str, failure: Failure | None) -> None:
        super().__init__(reason)
        self.failure: Failure | None = failure


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response's status and the first bytes of its body; without a status, the clause that is the reason.

    The names of headers are in lower case. A body that is larger than its limit is cut.
    """

    status: int | None
    body: bytes
    reason: str | None
    milliseconds: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    failure: Failure | None = None
    is_cut: bool = False

    @property
    def error(self) -> str | None:
        """The reason as a sentence."""
        return self.reason and describe_failure(self.reason)

    @property
    def ok(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class FileBody:
    """A body of known size that is read while it is sent."""

    stream: Readable
    size: int


def send_request(
    guard: Guard,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | FileBody | None,
    limits: TimeLimits,
    max_bytes: int,
) -> HttpResponse:
    """Send a request and wait for the response. Failures are responses without a status.

    With a file as its body it takes as long as bytes flow.
    """
    return _Transfer(guard, limits, max_bytes).run(method, url, headers, body)


def open_stream(
    guard: Guard, url: str, headers: Mapping[str, str], limits: TimeLimits, max_bytes: int
) -> tuple[HttpResponse, Generator[bytes]]:
    """Send a GET request, follow redirects, and return the response with a generator of its body.

    Without success the body is in the response. The generator raises StreamBroken when the connection breaks; close it
    to end the transfer. Headers of the caller are not sent to another host.
    """
    return _Transfer(guard, limits, max_bytes).stream(url, headers)


def describe_failure(reason: str) -> str:
    """Return the sentence for a request that has failed."""
    return f"The request failed: {reason}."


def is_host_name(host: str) -> bool:
    """Return whether the host needs a DNS lookup, because it is no IP address."""
    try:
        ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return True
    return False


class _Transfer:
    """One request on one libcurl handle."""

    def __init__(self, guard: Guard, limits: TimeLimits, max_bytes: int) -> None:
        self._sockets = GuardedSockets(guard)
        self._limits = limits
        self._max_bytes = max_bytes
        self._body = bytearray()
        self._headers: dict[str, str] = {}
        self._paused = False
        self._is_cut = False

    def run(self, method: str, url: str, headers: Mapping[str, str], body: bytes | FileBody | None) -> HttpResponse:
        started = time.monotonic()
        curl = self._create_handle(method, url, headers, body)
        curl.setopt(pycurl.WRITEFUNCTION, self._receive)
        reason, failure = None, None
        try:
            curl.perform()
        except pycurl.error as problem:
            code = int(problem.args[0])
            failure = self._classify(code)
            reason = None if self._is_cut else self._find_reason(curl, code, url)
        status: int = curl.getinfo(pycurl.RESPONSE_CODE)
        curl.close()
        milliseconds = round((time.monotonic() - started) * 1000)
        found = None if reason else status or None
        return HttpResponse(found, bytes(self._body), reason, milliseconds, self._headers, failure, self._is_cut)

    def stream(self, url: str, headers: Mapping[str, str]) -> tuple[HttpResponse, Generator[bytes]]:
        started = time.monotonic()
        curl = self._create_handle("GET", url, headers, None)
        self._limit_silence(curl)
        curl.setopt(pycurl.FOLLOWLOCATION, 1)
        curl.setopt(pycurl.MAXREDIRS, MAX_REDIRECTS)
        curl.setopt(pycurl.WRITEFUNCTION, self._buffer)
        chunks = self._receive_chunks(curl, url)
        try:
            first = next(chunks, b"")
            status: int = curl.getinfo(pycurl.RESPONSE_CODE)
            if 200 <= status < 300:
                response = HttpResponse(status, b"", None, round((time.monotonic() - started) * 1000), self._headers)
                return response, _prepend(first, chunks)
            body = first + b"".join(_take(chunks, self._max_bytes))
            chunks.close()
            return HttpResponse(status or None, body, None, 0, self._headers), _prepend(b"", chunks)
        except StreamBroken as error:
            return HttpResponse(None, b"", str(error), 0, failure=error.failure), _prepend(b"", chunks)

    def _receive_chunks(self, curl: pycurl.Curl, url: str) -> Generator[bytes]:
        """Yield the body as it arrives; raise StreamBroken when the transfer fails."""
        multi = pycurl.CurlMulti()
        multi.add_handle(curl)
        try:
            while True:
                _, active = multi.perform()
                if self._body:
                    chunk = bytes(self._body)
                    self._body.clear()
                    yield chunk
                    if self._paused:
                        self._paused = False
                        curl.pause(pycurl.PAUSE_CONT)
                    continue
                _, _, failed = multi.info_read()
                if failed:
                    code = failed[0][1]
                    raise StreamBroken(self._find_reason(curl, code, url), self._classify(code))
                if not active:
                    return
                multi.select(1.0)
        finally:
            multi.remove_handle(curl)
            multi.close()

    def _buffer(self, data: bytes) -> int | None:
        if len(self._body) >= BUFFERED_BYTES:
            self._paused = True
            return pycurl.WRITEFUNC_PAUSE
        self._body += data
        return None

    def _create_handle(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | FileBody | None
    ) -> pycurl.Curl:
        curl = make_handle(self._sockets, self._limits)
        curl.setopt(pycurl.URL, url)
        curl.setopt(pycurl.CUSTOMREQUEST, method)
        curl.setopt(pycurl.HTTPHEADER, [f"{name}: {value}" for name, value in {"Expect": "", **headers}.items()])
        curl.setopt(pycurl.HEADERFUNCTION, self._receive_header)
        if isinstance(body, FileBody):
            curl.setopt(pycurl.UPLOAD, 1)
            curl.setopt(pycurl.CUSTOMREQUEST, method)
            curl.setopt(pycurl.INFILESIZE_LARGE, body.size)
            curl.setopt(pycurl.READFUNCTION, body.stream.read)
            self._limit_silence(curl)
        elif body is not None:
            curl.setopt(pycurl.POSTFIELDS, body)
        return curl

    def _receive(self, data: bytes) -> int:
        room = self._max_bytes - len(self._body)
        self._body += data[:room]
        self._is_cut = len(data) > room
        return 0 if self._is_cut else len(data)  # libcurl aborts unless all of data was accepted

    def _receive_header(self, line: bytes) -> None:
        text = line.decode("iso-8859-1")
        if text.startswith("HTTP/"):  # of the next response, after a redirect
            self._headers.clear()
        name, colon, value = text.partition(":")
        if colon:
            self._headers[name.strip().lower()] = value.strip()

    def _limit_silence(self, curl: pycurl.Curl) -> None:
        """Let a transfer take as long as bytes flow."""
        self._limits = TimeLimits(self._limits.connect, silence=SILENT_SECONDS)
        limit_time(curl, self._limits)

    def _classify(self, code: int) -> Failure | None:
        return "refused" if self._sockets.refused else "no-http" if code in NO_HTTP else None

    def _find_reason(self, curl: pycurl.Curl, code: int, url: str) -> str:
        host, refused = urlsplit(url).hostname or "", self._sockets.refused
        if refused and not is_host_name(host):
            return str(refused)
        if refused or code == pycurl.E_COULDNT_RESOLVE_HOST:
            return f"{host}: {UNKNOWN_HOST}"
        detail = curl.errstr_raw().decode("latin-1")  # it may quote the server
        return describe_curl_error(code, detail, get_host(curl), self._limits)


def _prepend(first: bytes, chunks: Generator[bytes]) -> Generator[bytes]:
    try:
        if first:
            yield first
        yield from chunks
    finally:
        chunks.close()


def _take(chunks: Generator[bytes], size: int) -> Generator[bytes]:
    """Yield chunks until they have this size together."""
    for chunk in chunks:
        yield chunk[:size]
        size -= len(chunk)
        if size <= 0:
            return
