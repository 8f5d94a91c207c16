"""The page cache of an execution: private pages and those shared by an organization, fresh by RFC 9111."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from pipelines.fetch.fetcher import TEMPORARY_STATUSES
from pipelines.fetch.page import Page, parse_http_date
from pipelines.fetch.urls import list_spellings
from pipelines.filesystem import S3Access, create_folder, is_local, list_data_files, read_file, write_file
from pipelines.page_cache.options import CacheOptions
from pipelines.page_cache.store import PageStore, SqlitePageStore, hash_key

_log = logging.getLogger(__name__)

_CACHEABLE = frozenset((200, 203, 204, 300, 301, 308, 404, 405, 410, 414))
_DIRECTIVE = re.compile(r'([a-z-]+)(?:\s*=\s*"?([^",\s]*)"?)?')
_MAX_SECONDS = 10 * 365 * 86400
_KEY_BYTES = 16
_LARGEST = 100_000  # keys of a file


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
        self._used = UsedPages(options.used) if options.used and options.shared else None
        self._replay, self._is_complete = options.replay, options.is_complete
        self._replayed = read_used_pages(options.replay.folders) if options.replay and options.shared else {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, url: str, variant: str = "") -> Page | None:
        """Return the cached page of `url`, fresh or stale."""
        if self._replay and hash_key(self._variant + variant, url) not in self._replayed:
            return None
        for store in self._stores:
            if page := store.lookup(self._variant + variant, url):
                if self._replay and page.fetched_at > self._replay.until:
                    return None
                if store is self._shared:
                    self._note(variant, url)
                return page
        return None

    def is_fresh(self, page: Page) -> bool:
        """Return whether a cached page may be used without asking its server."""
        if page.fetched_at >= self._since or self._replay or self._is_complete:
            return True
        return self._is_trusting and datetime.now(UTC) - page.fetched_at < get_lifetime(page, self._lifetime)

    def refuse(self, url: str) -> str | None:
        """Return why a page that is not stored must not be requested; None where it may be."""
        if self._replay is None:
            return "it is not in the archive" if self._is_complete else None
        name = f"it is not among the stored pages of execution {self._replay.execution_id}"
        return f"{name}: it was not fetched, may not be stored, or was fetched again since"

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
            if store is self._shared:
                self._note(variant, page.requested_url)

    def tick(self) -> None:
        """Write buffered pages that are due."""
        for store in self._stores:
            store.flush()

    def close(self) -> None:
        for store in self._stores:
            store.close()
        if self._used:
            try:
                self._used.close()
            except OSError:
                _log.warning("the list of the pages of this run cannot be written", exc_info=True)

    def _note(self, variant: str, url: str) -> None:
        if self._used:
            self._used.add(hash_key(self._variant + variant, url))

    def _contains_secret(self, page: Page) -> bool:
        addresses = "\n".join((page.requested_url, page.url, *page.redirects))
        return any(secret in addresses for secret in self._secrets)


def list_stored_pages(
    location: str, folders: Iterable[str], until: datetime, access: S3Access | None = None
) -> Iterator[tuple[str, Page]]:
    """Yield variant and page of those that folders list and that were stored until then. Raise OSError."""
    store = open_store(location, access)
    try:
        for key in read_used_pages(folders, access):
            if (found := store.find(key)) and found[1].fetched_at <= until:
                yield found
    finally:
        store.close()


def open_store(location: str, access: S3Access | None = None) -> PageStore:
    """Return the store at a location, a local folder or an address in a bucket; it is created by the first write.

    With another `access` than that of the environment, a store in a bucket can only be read.
    """
    if is_local(location):
        return SqlitePageStore(Path(location))
    from pipelines.page_cache.object_store import ObjectPageStore

    return ObjectPageStore(location, access)


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
    if at is None:  # like 0, which has passed (section 5.3)
        return timedelta()
    return max(timedelta(), at - (parse_http_date(page.header("date") or "") or page.fetched_at))


class UsedPages:
    """Writes the keys of pages into files of a folder, which several processes share. Its files are small."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._keys: dict[bytes, None] = {}

    def add(self, key: bytes) -> None:
        self._keys[key] = None
        if len(self._keys) >= _LARGEST:
            self.close()

    def close(self) -> None:
        """Write the keys. Raise OSError."""
        if self._keys:
            create_folder(self._folder)
            write_file(f"{self._folder}/{uuid.uuid4().hex}.keys", b"".join(self._keys))
            self._keys.clear()


def read_used_pages(folders: Iterable[str], access: S3Access | None = None) -> dict[bytes, None]:
    """Return the keys of all files of the folders, some of which may be missing. Raise OSError."""
    files = [file.path for folder in folders for file in list_data_files(folder, access=access)]
    contents = (read_file(path, access) or b"" for path in files)
    return {
        content[start : start + _KEY_BYTES]: None
        for content in contents
        for start in range(0, len(content), _KEY_BYTES)
    }
