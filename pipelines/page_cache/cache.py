"""Which pages need not be fetched: those that this run has fetched, and those of earlier runs that may be trusted."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from secrets import token_bytes
from types import TracebackType
from typing import Self

from pipelines.fetch.failures import is_retryable_status
from pipelines.fetch.page import Page
from pipelines.fetch.urls import spellings
from pipelines.page_cache.freshness import lifetime, may_be_kept
from pipelines.page_cache.store import PageStore

_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """`shared` is the folder that runs share, None for a run by itself; `private` that of this run alone.

    A page of an earlier run is trusted as long as its server says, for `lifetime_seconds` where it does not; with 0
    never without asking. Whatever came after `since` belongs to this run. Addresses that hold one of `secrets` are
    not kept.
    """

    shared: str | None = None
    private: str | None = None
    lifetime_seconds: float = 1800
    since: datetime | None = None
    secrets: tuple[str, ...] = ()
    enabled: bool = True


class PageCache:
    """Pages by canonical URL and `variant`, what else tells them apart; for one thread.

    Each has a key of 64 bits, the same in all caches of one folder, which no site can compute: it would have addresses
    with the key of another site's page, and who waits for that would be led to its own.
    """

    def __init__(self, options: CacheOptions, variant: str = "") -> None:
        self._private = PageStore(Path(options.private)) if options.private else None
        self._shared = PageStore(Path(options.shared)) if options.shared else None
        self._stores = [store for store in (self._private, self._shared) if store]
        self._lifetime = timedelta(seconds=options.lifetime_seconds)
        self._since = options.since or datetime.now(UTC)
        self._secrets = {each for secret in options.secrets for each in spellings(secret)}
        self._variant = variant
        folder = options.shared or options.private
        secret = _secret(Path(folder)) if folder else token_bytes(_SECRET_BYTES)
        self._keyed = blake2b(f"{variant}\n".encode(), digest_size=8, key=secret)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def key(self, url: str) -> int:
        """What the page of `url`, a canonical address, is kept by."""
        digest = self._keyed.copy()
        digest.update(url.encode())
        return int.from_bytes(digest.digest())

    def get(self, url: str) -> Page | None:
        """The page of `url`, a canonical address, that is kept."""
        return self.find(self.key(url), url)

    def find(self, key: int, url: str) -> Page | None:
        """The same where the key is known."""
        for store in self._stores:
            entry = store.get(key)
            if entry and entry[1] == self._variant and entry[2].requested_url == url:
                return entry[2]
        return None

    def is_fresh(self, page: Page) -> bool:
        """Whether `page` may be used without asking its server."""
        if page.fetched_at >= self._since:
            return True
        return bool(self._lifetime) and datetime.now(UTC) - page.fetched_at < lifetime(page, self._lifetime)

    def put(self, page: Page) -> None:
        """Keeps `page`, whose `requested_url` is canonical, in place of an older one: on disk after a second, or after
        `close`. What may be better at the next try is not kept, what only this run may have is not shared.
        """
        if page.error is not None or page.status is None or is_retryable_status(page.status):
            return
        if self._secrets and self._tells(page):
            return
        store = self._shared if self._shared and may_be_kept(page) else self._private
        if store:
            store.put((self.key(page.requested_url), self._variant, page))

    def tick(self) -> None:
        """Writes what has waited for a second."""
        for store in self._stores:
            store.tick()

    def close(self) -> None:
        for store in self._stores:
            store.close()

    def _tells(self, page: Page) -> bool:
        """Whether an address of the page holds a secret."""
        addresses = "\n".join((page.requested_url, page.url, *page.redirects))
        return any(secret in addresses for secret in self._secrets)


def _secret(folder: Path) -> bytes:
    """What the keys of the pages in `folder` are made with; who opens it first makes it."""
    folder.mkdir(parents=True, exist_ok=True)
    private = os.open(folder / "secret", os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(private, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        secret = file.read()
        if len(secret) != _SECRET_BYTES:  # there was none, or the disk has lost some of it
            secret = token_bytes(_SECRET_BYTES)
            file.seek(0)
            file.truncate()
            file.write(secret)
            file.flush()
            os.fsync(private)
        return secret
