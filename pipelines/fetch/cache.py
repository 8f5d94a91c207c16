"""Pages kept in storage, many a file: Parquet files of a few thousand pages, compressed by zstd in small row groups.

Measured on pages of 5 KB, Parquet takes 7 µs a page to write and 5 µs to read in order; WARC takes 138 and 38.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from pyarrow import fs

from pipelines.fetch.page import Page
from pipelines.fetch.urls import canonical_url

K = TypeVar("K")
V = TypeVar("V")

_SCHEMA = pa.schema(
    [
        ("key", pa.uint64()),
        ("actions", pa.string()),
        ("requested_url", pa.string()),
        ("url", pa.string()),
        ("status", pa.int32()),
        ("content_type", pa.string()),
        ("charset", pa.string()),
        ("body", pa.binary()),
        ("fetched_at", pa.timestamp("us", tz="UTC")),
        ("redirects", pa.list_(pa.string())),
        ("head", pa.binary()),
    ]
)
_GROUP_PAGES = 64  # one page that is wanted costs the reading of so many
_FILE_PAGES = 4096
_FILE_BYTES = 32 * 1024 * 1024
_FILE_SECONDS = 10.0  # a crash loses no more than what came in so many
_GROUPS_AT_HAND = 16
_FILES_AT_HAND = 16


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a page stands."""

    path: str
    group: int
    row: int


class PageCache:
    """Pages by canonical URL and the actions that brought them, in a folder (a path or an `s3://` address).

    Any number of processes may write to one folder; each sees what was there when it opened the cache and what it put
    in itself. For one thread.
    """

    def __init__(self, folder: str, lifetime: timedelta) -> None:
        self._lifetime = lifetime
        self._files, self._folder = _storage(folder)
        self._files.create_dir(self._folder, recursive=True)
        self._places: dict[int, _Place] = {}
        self._pending: dict[int, tuple[Page, str]] = {}
        self._pending_bytes = 0
        self._pending_since = 0.0
        self._open: OrderedDict[str, pq.ParquetFile] = OrderedDict()
        self._groups: OrderedDict[tuple[str, int], list[pa.Array]] = OrderedDict()
        for path in self._paths():
            self._index(path)

    def get(self, url: str, actions: str = "") -> Page | None:
        """The newest page of `url`, a canonical address, that is kept."""
        key = _key(url, actions)
        if key in self._pending:
            page, its_actions = self._pending[key]
            return page if (page.requested_url, its_actions) == (url, actions) else None
        place = self._places.get(key)
        row = self._row(place) if place else None
        return _page(row) if row and row[1:3] == [actions, url] else None

    def is_fresh(self, page: Page) -> bool:
        """Whether `page` is young enough to be trusted."""
        return datetime.now(UTC) - page.fetched_at < self._lifetime

    def put(self, page: Page, actions: str = "") -> None:
        """Keeps `page`, in place of an older one; on disk after some seconds, or after `flush`."""
        url = canonical_url(page.requested_url) or page.requested_url
        if url != page.requested_url:
            page = replace(page, requested_url=url)
        if not self._pending:
            self._pending_since = time.monotonic()
        self._pending[_key(url, actions)] = page, actions
        self._pending_bytes += len(page.body)
        waited = time.monotonic() - self._pending_since
        if len(self._pending) >= _FILE_PAGES or self._pending_bytes >= _FILE_BYTES or waited >= _FILE_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Writes what is not yet in storage as one file, which appears at once and whole."""
        if not self._pending:
            return
        path = f"{self._folder}/{time.time_ns():020}-{uuid4().hex}.parquet"
        with self._files.open_output_stream(f"{path}.part") as stream:
            pq.write_table(
                _table(self._pending),
                stream,
                row_group_size=_GROUP_PAGES,
                compression="zstd",
                use_dictionary=False,
            )
        self._files.move(f"{path}.part", path)
        self._remember(path, list(self._pending))
        self._pending.clear()
        self._pending_bytes = 0

    def _paths(self) -> list[str]:
        """The files, oldest first: their names begin with the time."""
        found = self._files.get_file_info(fs.FileSelector(self._folder))
        return sorted(each.path for each in found if each.path.endswith(".parquet"))

    def _index(self, path: str) -> None:
        keys: list[int] = pq.read_table(path, columns=["key"], filesystem=self._files).column("key").to_pylist()
        self._remember(path, keys)

    def _remember(self, path: str, keys: list[int]) -> None:
        for position, key in enumerate(keys):
            self._places[key] = _Place(path, position // _GROUP_PAGES, position % _GROUP_PAGES)

    def _row(self, place: _Place) -> list[Any]:
        return [column[place.row].as_py() for column in self._group(place)]

    def _group(self, place: _Place) -> list[pa.Array]:
        """The columns of a page's row group; the last are kept, for pages are wanted as they were put."""
        where = (place.path, place.group)
        if where not in self._groups:
            table = self._file(place.path).read_row_group(place.group)
            self._groups[where] = [column.combine_chunks() for column in table.columns]
        return _recent(self._groups, where, _GROUPS_AT_HAND)

    def _file(self, path: str) -> pq.ParquetFile:
        if path not in self._open:
            self._open[path] = pq.ParquetFile(path, filesystem=self._files)
        return _recent(self._open, path, _FILES_AT_HAND)


def _recent(at_hand: OrderedDict[K, V], key: K, most: int) -> V:
    """The value of `key`, which is now the last to be let go; the first go when there are more than `most`."""
    at_hand.move_to_end(key)
    while len(at_hand) > most:
        at_hand.popitem(last=False)
    return at_hand[key]


def _storage(folder: str) -> tuple[fs.FileSystem, str]:
    if "://" in folder:
        return fs.FileSystem.from_uri(folder)
    return fs.LocalFileSystem(), folder


def _key(url: str, actions: str) -> int:
    return xxhash.xxh3_64_intdigest(f"{actions}\n{url}".encode())


def _table(pages: dict[int, tuple[Page, str]]) -> pa.Table:
    rows = (
        (
            key,
            actions,
            page.requested_url,
            page.url,
            page.status,
            page.content_type,
            page.charset,
            page.body,
            page.fetched_at,
            page.redirects,
            page.head,
        )
        for key, (page, actions) in pages.items()
    )
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)], _SCHEMA)


def _page(row: list[Any]) -> Page:
    _, _, requested_url, url, status, content_type, charset, body, fetched_at, redirects, head = row
    return Page(requested_url, url, status, None, content_type, charset, body, fetched_at, tuple(redirects), head)
