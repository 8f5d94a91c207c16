"""Known pages in a task: which links are left out, and the conditions of requests for known pages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TypeVar

from pipelines.coordination.messages import SeenPage
from pipelines.fetch.fetcher import PageCache
from pipelines.fetch.page import Page
from pipelines.fetch.urls import mask_secrets
from pipelines.incremental.known_pages import KnownPage, digest_address, load_known_pages
from pipelines.incremental.options import PageOutcome, Tracking

Tag = TypeVar("Tag")
NOT_MODIFIED = 304
_GONE = frozenset((404, 410))
_MICROSECONDS = 1_000_000
_VALIDATORS = ("ETag", "Last-Modified")
_LONG_AGO = datetime.fromtimestamp(0, UTC)


class PageTracker:
    """Leaves known pages out and reports the others. `secrets` are masked in addresses."""

    def __init__(
        self, tracking: Tracking, secrets: tuple[str, ...], report: Callable[[SeenPage], None], now: float | None = None
    ) -> None:
        self._tracking = tracking
        self._secrets = secrets
        self._report = report
        self._known = load_known_pages(tracking.known)
        self._now = (time.time() if now is None else now) * _MICROSECONDS
        self.left_out = 0
        self.gone: list[str] = []

    def select(self, links: Iterable[tuple[str, Tag]]) -> Iterator[tuple[str, Tag]]:
        """Yield the links to pages that are new, or due for a request."""
        for url, tag in links:
            if self._is_left_out(url):
                self.left_out += 1
            else:
                yield url, tag

    def take(self, page: Page) -> bool:
        """Report a requested page; return whether it gives rows."""
        digest = self._digest(page.requested_url)
        checked = int(page.fetched_at.timestamp() * _MICROSECONDS)
        if page.status == NOT_MODIFIED:
            self._report((digest, PageOutcome.UNCHANGED, checked, None, None))
            return False
        if page.error is None and page.status in _GONE and digest in self._known:
            self._report((digest, PageOutcome.GONE, checked, None, None))
            self.gone.append(mask_secrets(page.requested_url, self._secrets) or "")
            return False
        if page.ok:
            own = self._tracking.has_validators and page.url == page.requested_url
            etag, modified = (page.header("etag"), page.header("last-modified")) if own else (None, None)
            self._report((digest, PageOutcome.FETCHED, checked, etag, modified))
        return True

    def _is_left_out(self, url: str) -> bool:
        if self._tracking.asks_all or not len(self._known):
            return False
        digest = self._digest(url)
        if self._tracking.recheck_seconds is None:
            return digest in self._known
        known = self._known.find(digest)
        return known is not None and not self._is_due(known, self._tracking.recheck_seconds)

    def _is_due(self, known: KnownPage, seconds: float) -> bool:
        return known.checked + seconds * _MICROSECONDS <= self._now

    def _digest(self, url: str) -> bytes:
        return digest_address(url, self._tracking.job, self._secrets)


class RevalidatingCache:
    """A page cache in which a known page without a cached copy has the validators of its last answer.

    The page is stale and has the status 304, which it keeps when its server confirms that it has not changed.
    """

    def __init__(self, tracking: Tracking, secrets: tuple[str, ...], cache: PageCache | None) -> None:
        self._job = tracking.job
        self._known = load_known_pages(tracking.known)
        self._secrets = secrets
        self._cache = cache

    def get(self, url: str, variant: str = "") -> Page | None:
        found = self._cache.get(url, variant) if self._cache else None
        if found is not None and self._cache and self._cache.is_fresh(found):
            return found
        known = self._known.find(digest_address(url, self._job, self._secrets)) if len(self._known) else None
        if known is None or not (known.etag or known.last_modified):
            return found
        lines = [f"{name}: {text}\r\n" for name, text in zip(_VALIDATORS, known[2:], strict=True) if text]
        head = "".join(lines).encode("latin-1", "replace")
        return Page(url, url, NOT_MODIFIED, None, None, None, b"", _LONG_AGO, head=head)

    def is_fresh(self, page: Page) -> bool:
        return page.status != NOT_MODIFIED and self._cache is not None and self._cache.is_fresh(page)

    def refuse(self, url: str) -> str | None:
        return self._cache.refuse(url) if self._cache else None

    def put(self, page: Page, variant: str = "") -> None:
        if self._cache and page.status != NOT_MODIFIED:
            self._cache.put(page, variant)

    def tick(self) -> None:
        if self._cache:
            self._cache.tick()
