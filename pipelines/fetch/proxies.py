"""Proxies: the one that a request goes through, and the guard of the hosts that a proxy connects to."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from itertools import count
from random import SystemRandom
from urllib.parse import urlsplit
from zlib import crc32

from pipelines.fetch.throttle import HostThrottle, Refusal
from pipelines.http_client.guard import Guard, GuardRefused

SCHEMES = ("http", "https", "socks5")
_KNOWN_SECONDS = 60.0  # that the addresses of a host count
_PORTS = {"http": 80, "https": 443}


def check_proxy(text: str) -> str:
    """Return the address of a proxy, else raise ValueError, without the address: it may have a password."""
    if "${" in text:
        return text
    if not _is_proxy(text):
        raise ValueError("a proxy is an address such as http://user:password@proxy.example.com:8080, or socks5://…")
    return text


def _is_proxy(text: str) -> bool:
    try:
        parts = urlsplit(text)
        is_complete = parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_complete and text.isprintable() and parts.path in ("", "/") and not parts.query


class ProxyRotation:
    """Takes one proxy after another; in a session, the same one for all requests to a host, until it fails."""

    def __init__(self, proxies: Sequence[str], by_host: bool) -> None:
        self._proxies = proxies
        self._by_host = by_host
        self._turns = count(SystemRandom().randrange(len(proxies)))

    def choose(self, address: str, attempt: int) -> str:
        """Return the proxy for an attempt to fetch `address`."""
        host = urlsplit(address).hostname or ""
        turn = crc32(host.encode()) + attempt if self._by_host else next(self._turns)
        return self._proxies[turn % len(self._proxies)]


class GuardedThrottle:
    """A throttle that refuses hosts which the guard refuses, for requests whose connections a proxy opens."""

    def __init__(self, throttle: HostThrottle, guard: Guard) -> None:
        self._throttle = throttle
        self._guard = guard
        self._known: dict[str, tuple[float, Refusal | None]] = {}

    def acquire(self, origin: str, url: str) -> bool | Refusal:
        at, refusal = self._known.get(origin, (0.0, None))
        if not at or time.monotonic() - at > _KNOWN_SECONDS:
            refusal = self._find_refusal(origin)
            self._known[origin] = (time.monotonic(), refusal)
        return refusal or self._throttle.acquire(origin, url)

    def release(self, origin: str) -> None:
        self._throttle.release(origin)

    def cancel(self, origin: str) -> None:
        self._throttle.cancel(origin)

    def pause(self, origin: str, seconds: float) -> None:
        self._throttle.pause(origin, seconds)

    def poll(self) -> Collection[str]:
        return self._throttle.poll()

    def wait(self, timeout: float, block: bool) -> float:
        return self._throttle.wait(timeout, block)

    def _find_refusal(self, origin: str) -> Refusal | None:
        """Refuse a host if the guard refuses one of its addresses: the proxy may take any of them."""
        parts = urlsplit(origin)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        try:
            self._guard.resolve(host, port)
        except GuardRefused as refused:
            return Refusal(f"refused: {refused.describe_for(host)}", forbidden=False)
        except OSError:
            return Refusal(f"could not find the host {host}", forbidden=False)
        return None
