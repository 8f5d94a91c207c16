"""Fetchers: their options and the interface that passes use, for HTTP and for the browser."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, Self, TypeVar

from pipelines.fetch.blocks import BlockSigns, LogoutSigns
from pipelines.fetch.page import Page
from pipelines.fetch.requests import RequestDetails
from pipelines.http_client.handles import TimeLimits

T = TypeVar("T")
USER_AGENT = "Spindle/0.1"
TEMPORARY_STATUSES = frozenset((429, 502, 503, 504))  # the server was overloaded: a repeated request may succeed
Describe = Callable[[str, T], RequestDetails | None]


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """Limits of a fetcher; times are in seconds, sizes in bytes.

    `concurrency` limits all parallel requests, `per_host` those to one origin (scheme, host and port).
    `first_byte_timeout` includes connecting; `total_timeout` covers a page with its redirects. `max_body` limits the
    decompressed body. A request is repeated up to `retries` times after a failure of its connection or one of
    `retry_statuses`, and once after one of `retry_once`, first after about `backoff` seconds. `allow_networks` are
    CIDRs that the guard allows; `own_endpoints` are hosts and ports of the service, which it refuses even there. In a
    `session`, all fetchers of the run share cookies. Requests go through `proxies` in turn; the guard checks the hosts
    of requests and of proxies. Pages with one of the signs `blocked_when`, or `logged_out` after a recorded
    login, have failed; `local_storage` is that of the login in browsers, as JSON. Raises ValueError for a
    `user_agent` that cannot be sent in a header.
    """

    user_agent: str = USER_AGENT
    concurrency: int = 16
    per_host: int = 16
    connect_timeout: float = 10
    first_byte_timeout: float = 30
    total_timeout: float = 60
    max_body: int = 16 * 1024 * 1024
    max_redirects: int = 20
    retries: int = 2
    retry_statuses: frozenset[int] = TEMPORARY_STATUSES
    retry_once: frozenset[int] = frozenset((500,))
    backoff: float = 0.5
    max_retry_after: float = 60
    allow_networks: tuple[str, ...] = ()
    own_endpoints: tuple[tuple[str, int], ...] = ()
    session: bool = False
    proxies: tuple[str, ...] = field(default=(), repr=False)
    blocked_when: BlockSigns | None = None
    logged_out: LogoutSigns | None = None
    local_storage: str = field(default="", repr=False)

    @property
    def time_limits(self) -> TimeLimits:
        return TimeLimits(self.connect_timeout, self.total_timeout, self.first_byte_timeout)

    def __post_init__(self) -> None:
        check_user_agent(self.user_agent)

    def count_retries(self, status: int | None) -> int:
        """Return how often a request with an answer of this status is repeated."""
        if status in self.retry_statuses:
            return self.retries
        return min(1, self.retries) if status in self.retry_once else 0


@dataclass(frozen=True, slots=True)
class CrawlOptions(FetchOptions):
    """Options of a run, whose coordinator enforces the limits of each host for all fetchers of the run together.

    `delay` is the minimum time between the starts of two requests to an origin. With `robots`, URLs that robots.txt
    disallows are not requested, and its Crawl-delay is kept.
    """

    delay: float = 0
    robots: bool = True


def check_user_agent(text: str) -> str:
    """Return `text` if it may be sent in a header, else raise ValueError: a line break would begin another header."""
    if not (text.isascii() and text.isprintable()):
        raise ValueError("the user agent must be printable ASCII on one line: it is sent in a header")
    return text


def build_user_agent(contact: str | None) -> str:
    """Return the default User-Agent, with the operator's contact where there is one."""
    return f"{USER_AGENT} (+{contact})" if contact else USER_AGENT


class Fetcher(Protocol):
    """A context manager that fetches pages in one thread and frees its connections or tabs on exit."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def fetch(self, requests: Iterable[tuple[str, T]], describe: Describe[T] | None = None) -> Iterator[tuple[Page, T]]:
        """Yield a page for each (url, tag) in order of completion; a failed fetch is a page with an `error`.

        `requests` is consumed lazily, as requests can start. `describe` returns the details of a request from its URL
        and tag, None for a plain GET; a ValueError from it fails the request.
        """
        ...


class PageCache(Protocol):
    """Pages fetched earlier, by canonical URL; `variant` distinguishes requests for the same URL."""

    def get(self, url: str, variant: str = "") -> Page | None:
        """Return the cached page of `url`, fresh or stale."""
        ...

    def is_fresh(self, page: Page) -> bool:
        """Return whether a cached page may be used without asking its server."""
        ...

    def refuse(self, url: str) -> str | None:
        """Return why a page that is not cached must not be requested; None where it may be."""
        ...

    def put(self, page: Page, variant: str = "") -> None:
        """Cache `page` under its `requested_url`, unless its status or header forbids that."""
        ...

    def tick(self) -> None:
        """Write buffered pages; called often, so that an idle fetcher does not keep them in memory."""
        ...
