"""Requests that the service makes to addresses that its users name: guarded, bounded, and never redirected."""

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

from core.infra.settings import Settings
from pipelines.fetch import Guard, GuardRefused, canonical_url

CONNECT_SECONDS = 5.0
TOTAL_SECONDS = 15.0
MAX_ANSWER = 256 * 2**10
# one sentence for both: which names a private network knows is not for everybody who may send a request
NO_HOST = "there is no such host, or it is one that this service does not call"
EVERYWHERE = ("0.0.0.0/0", "::/0")
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request: a status and the body's first 256 KiB, or, without a status, why there is none."""

    status: int | None
    body: bytes
    error: str | None
    milliseconds: int

    @property
    def ok(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def send(settings: Settings, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
    """Makes the request and waits for its end, at most 15 s; any thread may do it. Failures are answers too."""
    guard = Guard(EVERYWHERE if is_own(settings, url) else settings.fetch_allow_networks)
    return _Exchange(guard).perform(method, url, headers, body)


def web_address(url: str) -> str | None:
    """The address as it will be called; None for what is not http or https."""
    return canonical_url(url)


def is_name(host: str) -> bool:
    """Whether the host of an address is a name that has to be looked up."""
    try:
        ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return True
    return False


def is_own(settings: Settings, url: str) -> bool:
    """Whether this is an address of the service itself, which may lie in a private network."""
    return _origin(url) == _origin(settings.api_url)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or DEFAULT_PORTS.get(parts.scheme)


class _Exchange:
    """One request on one libcurl handle."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._refused: GuardRefused | None = None
        self._body = bytearray()

    def perform(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        started = time.monotonic()
        curl = self._handle(method, url, headers, body)
        error = None
        try:
            curl.perform()
        except pycurl.error as failure:
            error = self._sentence(curl, int(failure.args[0]), urlsplit(url).hostname or "")
        status: int = curl.getinfo(pycurl.RESPONSE_CODE)
        curl.close()
        if len(self._body) >= MAX_ANSWER:  # it said enough
            error = None
        told = None if error else status or None
        return Answer(told, bytes(self._body), error, round((time.monotonic() - started) * 1000))

    def _handle(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> pycurl.Curl:
        curl = pycurl.Curl()
        lines = [f"{name}: {value}" for name, value in {"Expect": "", **headers}.items()]
        for option, value in (
            (pycurl.URL, url),
            (pycurl.CUSTOMREQUEST, method),
            (pycurl.HTTPHEADER, lines),
            (pycurl.NOSIGNAL, 1),
            (pycurl.PROXY, ""),  # nor one from the environment: the guard must see every address
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
        room = MAX_ANSWER - len(self._body)
        self._body += data[:room]
        return len(data) if len(data) < room else 0  # anything but the length of data makes libcurl give up

    def _open_socket(self, _purpose: int, address: Any) -> Any:
        """Every connection passes here with the address that it really goes to, whatever its name says."""
        try:
            self._guard.check(address.addr[0])
        except GuardRefused as refused:
            self._refused = refused
            return pycurl.SOCKET_BAD
        return _Socket(address.family, address.socktype, address.protocol)

    def _sentence(self, curl: pycurl.Curl, code: int, host: str) -> str:
        if self._refused and not is_name(host):
            return f"Refused: {self._refused}."
        if self._refused or code == pycurl.E_COULDNT_RESOLVE_HOST:
            return f"{host}: {NO_HOST}."
        if code == pycurl.E_OPERATION_TIMEDOUT:
            connected = curl.getinfo(pycurl.CONNECT_TIME) > 0
            return "It did not answer in time." if connected else "No connection could be made in time."
        return _SENTENCES.get(code, f"The request failed (libcurl error {code}).")


class _Socket(socket.socket):
    """libcurl works on a duplicate of this socket; this one may go at once."""

    def __del__(self) -> None:
        self.close()


_SENTENCES = {
    pycurl.E_URL_MALFORMAT: "The address cannot be read.",
    pycurl.E_COULDNT_CONNECT: "The connection was refused.",
    pycurl.E_GOT_NOTHING: "The connection was closed without an answer.",
    pycurl.E_RECV_ERROR: "The connection broke before the answer was complete.",
    pycurl.E_SEND_ERROR: "The connection broke before the request was sent.",
    pycurl.E_PARTIAL_FILE: "The connection broke before the answer was complete.",
    pycurl.E_SSL_CONNECT_ERROR: "No secure connection could be made.",
    pycurl.E_PEER_FAILED_VERIFICATION: "The certificate of the host is not valid.",
    pycurl.E_UNSUPPORTED_PROTOCOL: "The address is neither http nor https.",
}
