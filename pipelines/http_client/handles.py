"""libcurl handles whose every connection passes the guard, without proxies of the environment and redirects."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from typing import Any

import certifi
import pycurl

from pipelines.http_client.guard import Guard, GuardRefused

_MIN_SPEED = 32  # bytes a second; a slower transfer counts as silent


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds for a connection, for a whole transfer, and for one that is silent; 0 is no limit."""

    connect: float
    total: float = 0
    silence: float = 0


class GuardedSockets:
    """Opens the sockets of a handle: redirects and answers of the DNS cannot bypass the guard.

    The address that was checked is the one that is connected to.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self.refused: GuardRefused | None = None

    def open(self, _purpose: int, address: Any) -> Any:
        try:
            self._guard.check(address.addr[0], address.addr[1])
        except GuardRefused as refused:
            self.refused = refused
            return pycurl.SOCKET_BAD
        return _Socket(address.family, address.socktype, address.protocol)


class _Socket(socket.socket):
    """Closes itself: libcurl works on a duplicate of the file descriptor."""

    def __del__(self) -> None:
        self.close()


def make_handle(sockets: GuardedSockets, limits: TimeLimits, user_agent: str = "Spindle") -> pycurl.Curl:
    """Return a handle with the options that all requests share."""
    curl = pycurl.Curl()
    for option, value in (
        (pycurl.NOSIGNAL, 1),
        (pycurl.PROXY, ""),  # not from the environment either: the guard must see every address
        (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
        (pycurl.REDIR_PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
        (pycurl.FOLLOWLOCATION, 0),  # a redirect would take a key to another host, or past the throttle of a host
        (pycurl.USERAGENT, user_agent),
        (pycurl.CAINFO, find_ca_file()),
        (pycurl.OPENSOCKETFUNCTION, sockets.open),
    ):
        curl.setopt(option, value)
    limit_time(curl, limits)
    return curl


def limit_time(curl: pycurl.Curl, limits: TimeLimits) -> None:
    """Set the limits of the handle's transfers."""
    curl.setopt(pycurl.CONNECTTIMEOUT_MS, int(limits.connect * 1000))
    curl.setopt(pycurl.TIMEOUT_MS, int(limits.total * 1000))
    curl.setopt(pycurl.LOW_SPEED_LIMIT, _MIN_SPEED if limits.silence else 0)
    curl.setopt(pycurl.LOW_SPEED_TIME, max(1, round(limits.silence)) if limits.silence else 0)


def find_ca_file() -> str:
    """Return the file of trusted certificates: the machine's, or else certifi's."""
    return ssl.get_default_verify_paths().cafile or certifi.where()
