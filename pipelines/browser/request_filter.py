"""The fetch guard for a remote browser: each request is checked before the browser sends it.

A remote browser resolves names and connects in its own network, so only the addresses of its requests can be checked;
WebSockets are not.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.async_api import Route

from pipelines.http_client.guard import Guard, GuardRefused

_IMAGE_TYPES = frozenset(("image", "font", "media"))


@dataclass
class RequestFilter:
    """The filter of one page at a time."""

    guard: Guard
    images: bool
    received: int = field(default=0, init=False)
    exceeded: bool = field(default=False, init=False)
    failures: dict[str, str] = field(default_factory=dict[str, str], init=False)

    async def close(self) -> None:
        self.failures.clear()

    def reset(self) -> None:
        self.failures.clear()

    async def handle(self, route: Route) -> None:
        request = route.request
        if request.resource_type in _IMAGE_TYPES and not self.images:
            await route.abort("blockedbyclient")
        elif reason := await self.find_refusal(request.url):
            self.failures[request.url] = reason
            await route.abort("addressunreachable")
        else:
            await route.continue_()

    async def find_refusal(self, url: str) -> str | None:
        """Return why the guard refuses `url`, or None. Redirects are checked only after the browser followed them."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            return None if parts.scheme in ("data", "blob", "about") else f"refused: {parts.scheme} is not the web"
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        try:
            await asyncio.to_thread(self.guard.resolve, host, port)
        except GuardRefused as refused:
            return f"refused: {refused.describe_for(host)}"
        except OSError:
            return None  # the name may exist in the service's network only
        return None
