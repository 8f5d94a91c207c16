"""The guarded HTTP client for addresses that users name: checked, limited in time and size, without redirects."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import certifi
import pycurl

from core.errors import BadInput
from core.infra.settings import Settings
from pipelines.fetch import Guard, GuardRefused, canonical_url

CONNECT_SECONDS = 5.0
TOTAL_SECONDS = 15.0
MAX_BODY = 256 * 2**10
MAX_URL_LENGTH = 2048
# one sentence for both cases, so that callers cannot learn which names a private network knows
UNKNOWN_HOST = "there is no such host, or this service may not call it"
ALL_NETWORKS = ("0.0.0.0/0", "::/0")
DEFAULT_PORTS = {"http": 80, "https": 443}
SENTENCES = {
    pycurl.E_URL_MALFORMAT: "The URL is malformed.",
    pycurl.E_COULDNT_CONNECT: "The connection was refused.",
    pycurl.E_GOT_NOTHING: "The connection was closed without an answer.",
    pycurl.E_RECV_ERROR: "The connection broke before the answer was complete.",
    pycurl.E_SEND_ERROR: "The connection broke before the request was sent.",
    pycurl.E_PARTIAL_FILE: "The connection broke before the answer was complete.",
    pycurl.E_SSL_CONNECT_ERROR: "No secure connection could be made.",
    pycurl.E_PEER_FAILED_VERIFICATION: "The certificate of the host is not valid.",
    pycurl.E_UNSUPPORTED_PROTOCOL: "The URL is neither http nor https.",
}


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response's status and the first 256 KiB of its body; without a status, the reason in `error`."""

    status: int | None
    body: bytes
    error: str | None
    milliseconds: int

    @property
    def ok(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def send_request(
    settings: Settings, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
) -> HttpResponse:
    """Send a request and wait up to 15 s for the response. Failures are responses without a status."""
    return _Transfer(_make_guard(settings, url)).run(method, url, headers, body)


def check_target_url(settings: Settings, url: str, path: str) -> str:
    """Return the canonical form of a URL that the service is to call later, from the field `path`.

    Raise BadInput for one that it never may. Host names are checked with every connection.
    """
    address = canonical_url(url)
    if address is None or len(address) > MAX_URL_LENGTH:
        sentence = f"'{path}' is an http or https address of at most {MAX_URL_LENGTH} characters."
        raise BadInput(sentence, path=path)
    if "@" in urlsplit(address).netloc:
        raise BadInput(f"'{path}' contains a user name or password, which every reader of it would see.", path=path)
    host, port = _parse_origin(address)[1:]
    try:
        if host is not None and not is_host_name(host):
            _make_guard(settings, address).check(host, port)
    except GuardRefused as refused:
        sentence = f"'{path}' leads to an address that this service may not call: {refused}."
        raise BadInput(sentence, code="address-refused", path=path) from refused
    return address


def is_host_name(host: str) -> bool:
    """Return whether the host needs a DNS lookup, because it is no IP address."""
    try:
        ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return True
    return False


def is_own_url(settings: Settings, url: str) -> bool:
    """Return whether the URL belongs to this service, which may be in a private network."""
    return _parse_origin(url) == _parse_origin(settings.api_url)


def _make_guard(settings: Settings, url: str) -> Guard:
    """Return the guard of requests to the URL: of the service's own ports, only the API's own address is allowed."""
    if is_own_url(settings, url):
        return Guard(ALL_NETWORKS)
    return Guard(settings.fetch_allow_networks, settings.own_endpoints)


def _parse_origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or DEFAULT_PORTS.get(parts.scheme)


class _Transfer:
    """One request on one libcurl handle."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._refused: GuardRefused | None = None
        self._body = bytearray()

    def run(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> HttpResponse:
        started = time.monotonic()
        curl = self._create_handle(method, url, headers, body)
        error = None
        try:
            curl.perform()
        except pycurl.error as failure:
            error = self._describe_failure(curl, int(failure.args[0]), urlsplit(url).hostname or "")
        status: int = curl.getinfo(pycurl.RESPONSE_CODE)
        curl.close()
        if len(self._body) >= MAX_BODY:  # cut off by _receive
            error = None
        milliseconds = round((time.monotonic() - started) * 1000)
        return HttpResponse(None if error else status or None, bytes(self._body), error, milliseconds)

    def _create_handle(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> pycurl.Curl:
        curl = pycurl.Curl()
        lines = [f"{name}: {value}" for name, value in {"Expect": "", **headers}.items()]
        for option, value in (
            (pycurl.URL, url),
            (pycurl.CUSTOMREQUEST, method),
            (pycurl.HTTPHEADER, lines),
            (pycurl.NOSIGNAL, 1),
            (pycurl.PROXY, ""),  # ignores proxies of the environment: the guard must see every address
            (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
            (pycurl.FOLLOWLOCATION, 0),
            (pycurl.USERAGENT, "Spindle"),
            (pycurl.CONNECTTIMEOUT_MS, int(CONNECT_SECONDS * 1000)),
            (pycurl.TIMEOUT_MS, int(TOTAL_SECONDS * 1000)),
            (pycurl.CAINFO, ssl.get_default_verify_paths().cafile or certifi.where()),
            (pycurl.WRITEFUNCTION, self._receive),
            (pycurl.OPENSOCKETFUNCTION, self._open_socket),
        ):
            curl.setopt(option, value)
        if body is not None:
            curl.setopt(pycurl.POSTFIELDS, body)
        return curl

    def _receive(self, data: bytes) -> int:
        room = MAX_BODY - len(self._body)
        self._body += data[:room]
        return len(data) if len(data) < room else 0  # libcurl aborts unless all of data was accepted

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


class _Socket(socket.socket):
    """Closes itself: libcurl works on a duplicate of the file descriptor."""

    def __del__(self) -> None:
        self.close()
