"""The page cache of an execution: its private pages, and those shared by all executions of an organization."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

from pipelines.fetch.failures import is_retryable_status
from pipelines.fetch.page import Page
from pipelines.fetch.urls import list_spellings
from pipelines.page_cache.freshness import get_lifetime, is_shareable
from pipelines.page_cache.options import CacheOptions
from pipelines.page_cache.store import PageStore, open_store


class ExecutionPageCache:
    """Pages by canonical URL; `variant` distinguishes what else determines a page. For one thread.

    An answer that only this execution may reuse goes to the private store, all others to the shared one.
    """

    def __init__(self, options: CacheOptions, variant: str = "") -> None:
        self._private = open_store(options.private) if options.private else None
        self._shared = open_store(options.shared) if options.shared else None
        self._stores: list[PageStore] = [store for store in (self._private, self._shared) if store]
        self._lifetime = timedelta(seconds=options.lifetime_seconds)
        self._since = options.since or datetime.now(UTC)
        self._secrets = list_spellings(options.secrets)
        self._variant = variant

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def get(self, url: str, variant: str = "") -> Page | None:
        """Return the cached page of `url`, fresh or stale."""
        pages = (store.lookup(self._variant + variant, url) for store in self._stores)
        return next((page for page in pages if page), None)

    def is_fresh(self, page: Page) -> bool:
        """Return whether a cached page may be used without asking its server."""
        if page.fetched_at >= self._since:
            return True
        return bool(self._lifetime) and datetime.now(UTC) - page.fetched_at < get_lifetime(page, self._lifetime)

    def put(self, page: Page, variant: str = "") -> None:
        """Store a page under its `requested_url`, unless a repeated request may have a better result."""
        if page.error is not None or page.status is None or is_retryable_status(page.status):
            return
        if self._secrets and self._contains_secret(page):
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


def compact_shared_store(location: str, max_age_seconds: float, max_bytes: int) -> None:
    """Delete pages of an organization that are too old or exceed the size limit. Raise OSError."""
    store = open_store(location)
    try:
        store.compact(max_age_seconds, max_bytes)
    finally:
        store.close()
