"""The guard in a browser that is not ours: its requests are looked at before it makes them.

A remote browser resolves and connects by itself, in a network that is not this machine's, so what is checked here is
what its requests name; WebSockets are not seen.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.async_api import Route

from pipelines.fetch import Guard, GuardRefused

_UNSEEN = frozenset(("image", "font", "media"))


@dataclass
class Filter:
    """For one page at a time."""

    guard: Guard
    images: bool
    received: int = field(default=0, init=False)
    exceeded: bool = field(default=False, init=False)
    failures: dict[str, str] = field(default_factory=dict[str, str], init=False)

    async def close(self) -> None:
        self.failures.clear()

    def next_page(self) -> None:
        self.failures.clear()

    async def handle(self, route: Route) -> None:
        request = route.request
        if request.resource_type in _UNSEEN and not self.images:
            await route.abort("blockedbyclient")
        elif reason := await self.refusal(request.url):
            self.failures[request.url] = reason
            await route.abort("addressunreachable")
        else:
            await route.continue_()

    async def refusal(self, url: str) -> str | None:
        """Why `url` may not be asked for; redirects that the browser follows itself are told only afterwards."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            return None if parts.scheme in ("data", "blob", "about") else f"refused: {parts.scheme} is not the web"
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
            for *_, address in found:
                self.guard.check(str(address[0]))
        except GuardRefused as refused:
            return f"refused: {refused.of(host)}"
        except OSError:
            return None  # a name that only the service's network knows
        return None
