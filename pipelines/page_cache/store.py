"""Stores of fetched pages: the protocol, pages as bytes, and the local implementation on SQLite."""

from __future__ import annotations

import logging
import sqlite3
import time
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import Protocol

import pyarrow as pa
from msgspec.msgpack import Decoder, Encoder
from xxhash import xxh3_64_intdigest

from pipelines.fetch.page import Page

_log = logging.getLogger(__name__)
_FILE = "pages.v1.sqlite"
_BATCH_PAGES = 64
_BATCH_BYTES = 1024 * 1024
_BATCH_SECONDS = 1.0  # a killed process loses the pages of this long
_LOOK_SECONDS = 0.5  # between looks for a database that there was not
_LOCK_SECONDS = 60.0
_DELETE_ROWS = 2000  # in one transaction, which other processes wait for
_SCHEMA = """
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS pages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL UNIQUE, added_at REAL NOT NULL, data BLOB NOT NULL
);
"""
_HEADER = Struct("<QI")  # checksum and size of the uncompressed record
_Record = tuple[str, str, str, int | None, str | None, str | None, float, tuple[str, ...], bytes, bytes]
_lz4 = pa.Codec("lz4_raw")
_encode = Encoder().encode
_decode = Decoder(_Record).decode


class PageStore(Protocol):
    """Pages by URL and variant; several processes may read and write one location at once. For one thread.

    A store that fails behaves like an empty one: a cache never ends a run.
    """

    def add(self, variant: str, page: Page) -> None:
        """Store a page under its `requested_url`, in place of an older one; others see it within about a second."""
        ...

    def lookup(self, variant: str, url: str) -> Page | None: ...

    def find(self, key: bytes) -> tuple[str, Page] | None:
        """Return the variant and the page of a key of `hash_key`."""
        ...

    def flush(self, force: bool = False) -> None:
        """Write buffered pages when they are due, or now."""
        ...

    def compact(self, max_age_seconds: float, max_bytes: int) -> None:
        """Delete pages that are too old, then the oldest ones until the rest is small enough. Raise OSError."""
        ...

    def close(self) -> None:
        """Write buffered pages and free all resources."""
        ...


class SqlitePageStore:
    """Pages in an SQLite database in a local folder; its write-ahead log lets processes read while one writes."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._database: sqlite3.Connection | None = None
        self._pending: dict[bytes, bytes] = {}
        self._pending_bytes = 0
        self._pending_since = 0.0
        self._next_look = 0.0
        self._failed = False

    def add(self, variant: str, page: Page) -> None:
        data = dump_page(variant, page)  # at once: it is smaller, and the body is still in the processor's cache
        self._pending[hash_key(variant, page.requested_url)] = data
        self._pending_bytes += len(data)
        if len(self._pending) == 1:
            self._pending_since = time.monotonic()
        if len(self._pending) >= _BATCH_PAGES or self._pending_bytes >= _BATCH_BYTES:
            self.flush(force=True)

    def lookup(self, variant: str, url: str) -> Page | None:
        can_read = self._can_read()
        if not (can_read or self._pending):
            return None
        key = hash_key(variant, url)
        if pending := self._pending.get(key):
            return load_page(pending, variant, url)
        data = self._read(key) if can_read else None
        return load_page(data, variant, url) if data else None

    def find(self, key: bytes) -> tuple[str, Page] | None:
        data = self._read(key) if self._can_read() else None
        return decode_page(data) if data else None

    def _read(self, key: bytes) -> bytes | None:
        try:
            row = self._open().execute("SELECT data FROM pages WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error:
            return self._disable()
        return row[0] if row else None

    def _can_read(self) -> bool:
        """Return whether there is a database; one that another process creates is found within half a second."""
        if self._failed or self._database:
            return not self._failed
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + _LOOK_SECONDS
        return self._path.exists()

    def flush(self, force: bool = False) -> None:
        if not self._pending or not (force or time.monotonic() - self._pending_since >= _BATCH_SECONDS):
            return
        now = time.time()
        rows = [(key, now, data) for key, data in self._pending.items()]
        self._pending.clear()
        self._pending_bytes = 0
        if self._failed:
            return
        try:
            with self._open() as transaction:
                transaction.executemany("INSERT OR REPLACE INTO pages (key, added_at, data) VALUES (?, ?, ?)", rows)
        except (sqlite3.Error, OSError):
            self._disable()

    def compact(self, max_age_seconds: float, max_bytes: int) -> None:
        try:
            database = self._open()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE):
                raise OSError(str(error)) from error
            self._disable()  # a full disk needs no pages of earlier runs
            return
        except sqlite3.DatabaseError:
            self._delete()
            return
        try:
            self._delete_rows(database, time.time() - max_age_seconds, max_bytes)
        except sqlite3.OperationalError:  # another process writes or compacts for too long: the next run will
            _log.warning("the page cache %s was not compacted", self._path, exc_info=True)
        except sqlite3.DatabaseError:
            self._delete()

    def close(self) -> None:
        self.flush(force=True)
        if self._database:
            with suppress(sqlite3.Error):  # a damaged file, which is known by now
                self._database.close()
            self._database = None
        self._next_look = 0.0

    def _delete(self) -> None:
        """Delete a damaged database."""
        _log.warning("the page cache %s was damaged and begins empty", self._path, exc_info=True)
        self.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    def _delete_rows(self, database: sqlite3.Connection, oldest: float, max_bytes: int) -> None:
        first = database.execute("SELECT added_at FROM pages ORDER BY id LIMIT 1").fetchone()
        if (first is None or first[0] >= oldest) and _get_size(database) <= max_bytes:
            return  # the usual case takes no lock from those that write
        delete = "DELETE FROM pages WHERE id IN (SELECT id FROM pages WHERE {} ORDER BY id LIMIT ?)"
        while _run(database, delete.format("added_at < ?"), oldest, _DELETE_ROWS):
            pass
        while _get_size(database) > max_bytes and _run(database, delete.format("1"), _DELETE_ROWS):
            pass
        database.executescript("PRAGMA incremental_vacuum")  # `execute` would free a single page
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # an export reads in one thread after another
            database = sqlite3.connect(self._path, timeout=_LOCK_SECONDS, check_same_thread=False)
            try:
                database.execute("PRAGMA synchronous = NORMAL")
                database.executescript(_SCHEMA)
            except sqlite3.Error:
                database.close()
                raise
            self._database = database
        return self._database

    def _disable(self) -> None:
        _log.warning("the page cache %s cannot be used; pages are fetched again", self._path, exc_info=True)
        self._failed = True


def _run(database: sqlite3.Connection, statement: str, *values: float) -> int:
    with database:
        return database.execute(statement, values).rowcount


def _get_size(database: sqlite3.Connection) -> int:
    """Return the bytes of the pages of the database in use."""
    used, free, size = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return (used - free) * size


def hash_key(variant: str, url: str) -> bytes:
    """Return a key that no site can make equal to that of another site's page."""
    return blake2b(f"{variant}\n{url}".encode(), digest_size=16).digest()


def dump_page(variant: str, page: Page) -> bytes:
    about = (page.status, page.content_type, page.charset, page.fetched_at.timestamp(), page.redirects)
    record = _encode((variant, page.requested_url, page.url, *about, page.head, page.body))
    return _HEADER.pack(xxh3_64_intdigest(record), len(record)) + _lz4.compress(record, asbytes=True)


def load_page(data: bytes, variant: str, url: str) -> Page | None:
    """Return the stored page; None if the disk has changed it."""
    found = decode_page(data)
    return found[1] if found and (found[0], found[1].requested_url) == (variant, url) else None


def decode_page(data: bytes) -> tuple[str, Page] | None:
    """Return the variant and the page of a record; None if the disk has changed it."""
    try:
        checksum, size = _HEADER.unpack_from(data)
        record = _lz4.decompress(data[_HEADER.size :], size, asbytes=True)
    except (pa.ArrowException, OSError, ValueError):
        return None
    if xxh3_64_intdigest(record) != checksum:
        return None
    variant, requested_url, final_url, status, content_type, charset, seconds, redirects, head, body = _decode(record)
    fetched_at = datetime.fromtimestamp(seconds, UTC)
    page = Page(requested_url, final_url, status, None, content_type, charset, body, fetched_at, redirects, head)
    return variant, page
