"""What one fetch brought, whether it worked or not."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache


@dataclass(slots=True)  # never changed; to freeze it would cost six times as much, on every page
class Page:
    """`status` is the final HTTP status, None when no answer came; `error` a sentence when no whole page came.

    `url` is the final address, `redirects` the addresses between `requested_url` and it. `content_type` and `charset`
    are what the Content-Type header says, in lower case. `fetched_at` is in UTC. Of a page that is larger than was
    asked for, `body` is the beginning; with any other `error` it is empty. `head` is the answer's header lines.
    `received` counts the bytes of the body as they were transferred, none where nothing was fetched.
    `forbidden` tells that the site does not let crawlers have the page, so that it was not asked for.
    """

    requested_url: str
    url: str
    status: int | None
    error: str | None
    content_type: str | None
    charset: str | None
    body: bytes
    fetched_at: datetime
    redirects: tuple[str, ...] = ()
    head: bytes = b""
    received: int = field(default=0, compare=False)
    forbidden: bool = False

    @property
    def ok(self) -> bool:
        return self.error is None and self.status is not None and self.status < 400

    def header(self, name: str) -> str | None:
        """A header of the answer, in any case; None when it has none of that name."""
        return next(iter(self.headers(name)), None)

    def headers(self, name: str) -> list[str]:
        """All headers of that name, in their order."""
        if f"{name.lower()}:".encode() not in self.head.lower():  # most are asked for in vain, and this is far quicker
            return []
        return [value.decode("latin-1").rstrip() for value in _header(name).findall(self.head)]


@lru_cache(maxsize=64)
def _header(name: str) -> re.Pattern[bytes]:
    return re.compile(rb"(?im)^%b:[ \t]*([^\r\n]*)" % re.escape(name.encode()))
