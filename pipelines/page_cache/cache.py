"""The page cache of an execution: private pages and those shared by an organization, fresh by RFC 9111."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from pipelines.fetch.fetcher import TEMPORARY_STATUSES
from pipelines.fetch.page import Page, parse_http_date
from pipelines.fetch.urls import list_spellings
from pipelines.filesystem import is_local
from pipelines.page_cache.options import CacheOptions
from pipelines.page_cache.store import PageStore, SqlitePageStore

_CACHEABLE = frozenset((200, 203, 204, 300, 301, 308, 404, 405, 410, 414))
_DIRECTIVE = re.compile(r'([a-z-]+)(?:\s*=\s*"?([^",\s]*)"?)?')
_MAX_SECONDS = 10 * 365 * 86400


class ExecutionPageCache:
    """Pages by canonical URL; `variant` stands for the other properties that determine a page. For one thread.

    An answer that only this execution may reuse goes to the private store, all others to the shared one.
    """

    def __init__(self, options: CacheOptions, variant: str = "") -> None:
        self._private = open_store(options.private) if options.private else None
        self._shared = open_store(options.shared) if options.shared else None
        self._stores: list[PageStore] = [store for store in (self._private, self._shared) if store]
        self._is_trusting = options.lifetime_seconds != 0
        self._lifetime = timedelta(seconds=options.lifetime_seconds or 0)
        self._since = options.since or datetime.now(UTC)
        self._secrets = list_spellings(options.secrets)
        self._variant = variant

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def get(self, url: str, variant: str = "") -> Page | None:
        """Return the cached page of `url`, fresh or stale."""
        for store in self._stores:
            if page := store.lookup(self._variant + variant, url):
                return page
        return None

    def is_fresh(self, page: Page) -> bool:
        """Return whether a cached page may be used without asking its server."""
        if page.fetched_at >= self._since:
            return True
        return self._is_trusting and datetime.now(UTC) - page.fetched_at < get_lifetime(page, self._lifetime)

    def put(self, page: Page, variant: str = "") -> None:
        """Store a page under its `requested_url`, unless a repeated request may have a better result."""
        if page.error is not None or page.status is None or page.status in TEMPORARY_STATUSES:
            return
        if self._secrets and self._contains_secret(page):
            return
        if "*" in "".join(page.headers("vary")):  # no later request is like this one (RFC 9111, section 4.1)
            return
        store = self._shared if self._shared and is_shareable(page) else self._private
        if store:
            store.add(self._variant + variant, page)

    def tick(self) -> None:
        """Write buffered pages that are due."""
        for store in self._stores:
            store.flush()

    def close(self) -> None:
        for store in self._stores:
            store.close()

    def _contains_secret(self, page: Page) -> bool:
        addresses = "\n".join((page.requested_url, page.url, *page.redirects))
        return any(secret in addresses for secret in self._secrets)


def open_store(location: str) -> PageStore:
    """Return the store at a location, a local folder or an address in a bucket; it is created by the first write."""
    if is_local(location):
        return SqlitePageStore(Path(location))
    from pipelines.page_cache.object_store import ObjectPageStore

    return ObjectPageStore(location)


def compact_shared_store(location: str, max_age_seconds: float, max_bytes: int) -> None:
    """Delete pages of an organization that are too old or exceed the size limit. Raise OSError."""
    store = open_store(location)
    try:
        store.compact(max_age_seconds, max_bytes)
    finally:
        store.close()


def is_shareable(page: Page) -> bool:
    """Return whether later executions may use the answer: complete, of a cacheable status, and without no-store."""
    is_cacheable = page.error is None and page.status in _CACHEABLE
    return is_cacheable and ("no-store" not in _lower_head(page) or "no-store" not in _parse_directives(page))


def get_lifetime(page: Page, default: timedelta) -> timedelta:
    """Return how long after its arrival the answer is fresh; `default` without caching headers."""
    head = _lower_head(page)
    if "cache-control:" not in head and "expires:" not in head and "pragma:" not in head:  # most say nothing
        return default
    directives = _parse_directives(page)
    if "no-cache" in directives or "no-store" in directives:
        return timedelta()
    if (seconds := _parse_seconds(directives.get("max-age"))) is not None:
        return max(timedelta(), timedelta(seconds=seconds) - _get_age(page))
    if (expires := page.header("expires")) is not None:
        return max(timedelta(), _get_time_left(expires, page) - _get_age(page))
    return default if directives or "no-cache" not in (page.header("pragma") or "") else timedelta()


def _get_age(page: Page) -> timedelta:
    """Return how old the answer was at its arrival, by its Age and its Date (RFC 9111, section 4.2.3)."""
    sent = parse_http_date(page.header("date") or "")
    stored = timedelta(seconds=_parse_seconds(page.header("age")) or 0)
    return max(stored, page.fetched_at - sent) if sent else stored


def _lower_head(page: Page) -> str:
    """Return the header lines in lower case, as text: searching bytes is far slower."""
    return page.head.decode("latin-1").lower()


def _parse_directives(page: Page) -> dict[str, str]:
    lines = page.headers("cache-control")
    if not lines:
        return {}
    text = ",".join(lines).lower()
    return {match[1]: match[2] or "" for match in _DIRECTIVE.finditer(text)}


def _parse_seconds(text: str | None) -> int | None:
    """Return a number of seconds; None for anything else."""
    text = (text or "").strip()
    return min(int(text[:12]), _MAX_SECONDS) if text.isascii() and text.isdigit() else None


def _get_time_left(expires: str, page: Page) -> timedelta:
    at = parse_http_date(expires)
    if at is None:  # such as 0, which has passed (section 5.3)
        return timedelta()
    return max(timedelta(), at - (parse_http_date(page.header("date") or "") or page.fetched_at))
