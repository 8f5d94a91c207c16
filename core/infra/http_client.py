"""The guarded HTTP client for addresses that users name: checked, and limited in time and size.

Only `open_stream` follows redirects; the guard checks the address of every connection.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import urlsplit

import certifi
import pycurl

from core.errors import BadInput, Unavailable
from core.infra.settings import Settings
from pipelines.fetch import Guard, GuardRefused, canonical_url

CONNECT_SECONDS = 5.0
TOTAL_SECONDS = 15.0
MAX_BODY = 256 * 2**10
SILENT_SECONDS = 60  # without a byte, after which a long transfer is given up
MAX_REDIRECTS = 5
BUFFERED_BYTES = 2**20  # of a stream that its reader has not taken
MAX_URL_LENGTH = 2048
# one sentence for both cases, so that callers cannot learn which names a private network knows
UNKNOWN_HOST = "there is no such host, or this service may not call it"
ALL_NETWORKS = ("0.0.0.0/0", "::/0")
DEFAULT_PORTS = {"http": 80, "https": 443}
NO_HTTP = "The answer was no HTTP, or led out of it."
SENTENCES = {
    pycurl.E_FTP_WEIRD_SERVER_REPLY: NO_HTTP,
    pycurl.E_URL_MALFORMAT: "The URL is malformed.",
    pycurl.E_COULDNT_CONNECT: "The connection was refused.",
    pycurl.E_GOT_NOTHING: "The connection was closed without an answer.",
    pycurl.E_RECV_ERROR: "The connection broke before the answer was complete.",
    pycurl.E_SEND_ERROR: "The connection broke before the request was sent.",
    pycurl.E_PARTIAL_FILE: "The connection broke before the answer was complete.",
    pycurl.E_SSL_CONNECT_ERROR: "No secure connection could be made.",
    pycurl.E_PEER_FAILED_VERIFICATION: "The certificate of the host is not valid.",
    pycurl.E_UNSUPPORTED_PROTOCOL: NO_HTTP,  # HTTP/0.9, which any bytes are, and redirects to other schemes
}


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response's status and the first bytes of its body; without a status, the reason in `error`.

    The names of headers are in lower case.
    """

    status: int | None
    body: bytes
    error: str | None
    milliseconds: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def ok(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class FileBody:
    """A body of known size that is read while it is sent."""

    stream: Readable
    size: int


def send_request(
    settings: Settings,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | FileBody | None = None,
    max_bytes: int = MAX_BODY,
) -> HttpResponse:
    """Send a request and wait for the response. Failures are responses without a status.

    It takes up to 15 s; with a file as its body, as long as bytes flow.
    """
    return _Transfer(_make_guard(settings, url), max_bytes).run(method, url, headers, body)


def open_stream(settings: Settings, url: str, headers: Mapping[str, str]) -> tuple[HttpResponse, Generator[bytes]]:
    """Send a GET request, follow redirects, and return the response with a generator of its body.

    Without success the body is in the response. The generator raises Unavailable when the connection breaks; close it
    to end the transfer. Headers of the caller are not sent to another host.
    """
    return _Transfer(_make_guard(settings, url), MAX_BODY).stream(url, headers)


def check_target_url(settings: Settings, url: str, path: str) -> str:
    """Return the canonical form of a URL that the service is to call later, from the field `path`.

    Raise BadInput for one that it never may. Host names are checked with every connection.
    """
    address = _parse_address(url, path)
    _check_address(_make_guard(settings, address), address, path)
    return address


def check_endpoint(settings: Settings, url: str, path: str) -> None:
    """Check the address of a provider's server as `check_target_url` does; the service's own addresses are none.

    The server of the service's bucket may have buckets of users too.
    """
    own = [] if url.rstrip("/") == (settings.storage.s3_endpoint or "").rstrip("/") else settings.own_endpoints
    _check_address(Guard(settings.fetch.allow_networks, own), _parse_address(url, path), path)


def _parse_address(url: str, path: str) -> str:
    address = canonical_url(url)
    if address is None or len(address) > MAX_URL_LENGTH:
        sentence = f"'{path}' is an http or https address of at most {MAX_URL_LENGTH} characters."
        raise BadInput(sentence, path=path)
    if "@" in urlsplit(address).netloc:
        raise BadInput(f"'{path}' contains a user name or password, which every reader of it would see.", path=path)
    return address


def _check_address(guard: Guard, address: str, path: str) -> None:
    host, port = _parse_origin(address)[1:]
    try:
        if host is not None and not is_host_name(host):
            guard.check(host, port)
    except GuardRefused as refused:
        sentence = f"'{path}' leads to an address that this service may not call: {refused}."
        raise BadInput(sentence, code="address-refused", path=path) from refused


def is_host_name(host: str) -> bool:
    """Return whether the host needs a DNS lookup, because it is no IP address."""
    try:
        ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return True
    return False


def is_own_url(settings: Settings, url: str) -> bool:
    """Return whether the URL belongs to this service, which may be in a private network."""
    return _parse_origin(url) == _parse_origin(settings.api.url)


def _make_guard(settings: Settings, url: str) -> Guard:
    """Return the guard of requests to the URL: of the service's own ports, only the API's own address is allowed."""
    if is_own_url(settings, url):
        return Guard(ALL_NETWORKS)
    return Guard(settings.fetch.allow_networks, settings.own_endpoints)


def _parse_origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or DEFAULT_PORTS.get(parts.scheme)


class _Transfer:
    """One request on one libcurl handle."""

    def __init__(self, guard: Guard, max_bytes: int) -> None:
        self._guard = guard
        self._refused: GuardRefused | None = None
        self._max_bytes = max_bytes
        self._body = bytearray()
        self._headers: dict[str, str] = {}
        self._paused = False

    def run(self, method: str, url: str, headers: Mapping[str, str], body: bytes | FileBody | None) -> HttpResponse:
        started = time.monotonic()
        curl = self._create_handle(method, url, headers, body)
        curl.setopt(pycurl.WRITEFUNCTION, self._receive)
        error = None
        try:
            curl.perform()
        except pycurl.error as failure:
            error = self._describe_failure(curl, int(failure.args[0]), urlsplit(url).hostname or "")
        status: int = curl.getinfo(pycurl.RESPONSE_CODE)
        curl.close()
        if len(self._body) >= self._max_bytes:  # cut off by _receive
            error = None
        milliseconds = round((time.monotonic() - started) * 1000)
        return HttpResponse(None if error else status or None, bytes(self._body), error, milliseconds, self._headers)

    def stream(self, url: str, headers: Mapping[str, str]) -> tuple[HttpResponse, Generator[bytes]]:
        started = time.monotonic()
        curl = self._create_handle("GET", url, headers, None)
        _limit_silence(curl)
        curl.setopt(pycurl.FOLLOWLOCATION, 1)
        curl.setopt(pycurl.MAXREDIRS, MAX_REDIRECTS)
        curl.setopt(pycurl.WRITEFUNCTION, self._buffer)
        chunks = self._receive_chunks(curl, urlsplit(url).hostname or "")
        try:
            first = next(chunks, b"")
            status: int = curl.getinfo(pycurl.RESPONSE_CODE)
            if 200 <= status < 300:
                response = HttpResponse(status, b"", None, round((time.monotonic() - started) * 1000), self._headers)
                return response, _prepend(first, chunks)
            body = first + b"".join(_take(chunks, self._max_bytes))
            chunks.close()
            return HttpResponse(status or None, body, None, 0, self._headers), _prepend(b"", chunks)
        except Unavailable as error:
            return HttpResponse(None, b"", error.sentence, 0), _prepend(b"", chunks)

    def _receive_chunks(self, curl: pycurl.Curl, host: str) -> Generator[bytes]:
        """Yield the body as it arrives; raise Unavailable when the transfer fails."""
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
                    raise Unavailable(self._describe_failure(curl, failed[0][1], host))
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
        curl = pycurl.Curl()
        lines = [f"{name}: {value}" for name, value in {"Expect": "", **headers}.items()]
        for option, value in (
            (pycurl.URL, url),
            (pycurl.CUSTOMREQUEST, method),
            (pycurl.HTTPHEADER, lines),
            (pycurl.NOSIGNAL, 1),
            (pycurl.PROXY, ""),  # ignores proxies of the environment: the guard must see every address
            (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
            (pycurl.REDIR_PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
            (pycurl.FOLLOWLOCATION, 0),
            (pycurl.USERAGENT, "Spindle"),
            (pycurl.CONNECTTIMEOUT_MS, int(CONNECT_SECONDS * 1000)),
            (pycurl.TIMEOUT_MS, int(TOTAL_SECONDS * 1000)),
            (pycurl.CAINFO, ssl.get_default_verify_paths().cafile or certifi.where()),
            (pycurl.HEADERFUNCTION, self._receive_header),
            (pycurl.OPENSOCKETFUNCTION, self._open_socket),
        ):
            curl.setopt(option, value)
        if isinstance(body, FileBody):
            curl.setopt(pycurl.UPLOAD, 1)
            curl.setopt(pycurl.CUSTOMREQUEST, method)
            curl.setopt(pycurl.INFILESIZE_LARGE, body.size)
            curl.setopt(pycurl.READFUNCTION, body.stream.read)
            _limit_silence(curl)
        elif body is not None:
            curl.setopt(pycurl.POSTFIELDS, body)
        return curl

    def _receive(self, data: bytes) -> int:
        room = self._max_bytes - len(self._body)
        self._body += data[:room]
        return len(data) if len(data) < room else 0  # libcurl aborts unless all of data was accepted

    def _receive_header(self, line: bytes) -> None:
        text = line.decode("iso-8859-1")
        if text.startswith("HTTP/"):  # of the next response, after a redirect
            self._headers.clear()
        name, colon, value = text.partition(":")
        if colon:
            self._headers[name.strip().lower()] = value.strip()

    def _open_socket(self, _purpose: int, address: Any) -> Any:
        """Check the resolved address of every connection, whatever the host's name says."""
        try:
            self._guard.check(address.addr[0], address.addr[1])
        except GuardRefused as refused:
            self._refused = refused
            return pycurl.SOCKET_BAD
        return _Socket(address.family, address.socktype, address.protocol)

    def _describe_failure(self, curl: pycurl.Curl, code: int, host: str) -> str:
        if self._refused and not is_host_name(host):
            return f"Refused: {self._refused}."
        if self._refused or code == pycurl.E_COULDNT_RESOLVE_HOST:
            return f"{host}: {UNKNOWN_HOST}."
        if code == pycurl.E_OPERATION_TIMEDOUT:
            connected = curl.getinfo(pycurl.CONNECT_TIME) > 0
            return "It did not answer in time." if connected else "No connection could be made in time."
        return SENTENCES.get(code, f"The request failed (libcurl error {code}).")


def _limit_silence(curl: pycurl.Curl) -> None:
    """Let a transfer take as long as bytes flow."""
    curl.setopt(pycurl.TIMEOUT_MS, 0)
    curl.setopt(pycurl.LOW_SPEED_LIMIT, 1)
    curl.setopt(pycurl.LOW_SPEED_TIME, SILENT_SECONDS)


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


class _Socket(socket.socket):
    """Closes itself: libcurl works on a duplicate of the file descriptor."""

    def __del__(self) -> None:
        self.close()
