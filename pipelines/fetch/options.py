"""How a fetcher behaves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """Times are in seconds, sizes in bytes.

    `concurrency` counts requests in flight of one fetcher, `per_host` those of a whole run to one scheme, host and
    port; `delay` lies between the starts of two such. `robots`: what a site's robots.txt forbids is not fetched.
    `first_byte_timeout` runs until the answer's first byte, connecting included; `total_timeout` until its last.
    `max_body` is measured after decompression. `allow_networks` are CIDRs that the guard lets through.
    Raises ValueError for a `user_agent` that cannot be sent.
    """

    user_agent: str = "Spindle/0.1"
    concurrency: int = 16
    per_host: int = 16
    delay: float = 0
    robots: bool = True
    connect_timeout: float = 10
    first_byte_timeout: float = 30
    total_timeout: float = 60
    max_body: int = 16 * 1024 * 1024
    max_redirects: int = 20
    retries: int = 2
    backoff: float = 0.5
    max_retry_after: float = 60
    allow_networks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_user_agent(self.user_agent)


def check_user_agent(text: str) -> str:
    """`text`, which may be sent in a header; raises ValueError, as where a line break would begin another header."""
    if not (text.isascii() and text.isprintable()):
        raise ValueError("the user agent must be printable ASCII on one line: it is sent in a header")
    return text
