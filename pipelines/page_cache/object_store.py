"""A page store in object storage: immutable Parquet files, in folders by the first digit of the pages' keys.

A file has the keys of its pages and their records. Readers keep the keys of all files of a folder in memory, and look
for new files now and then. The name of a file begins with the time of its batch, which is one file in each folder.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import RunError
from pipelines.fetch.page import Page
from pipelines.filesystem import S3Access, StoredFile, delete_file, list_data_files, open_filesystem, write_file
from pipelines.page_cache.store import decode_page, dump_page, hash_key, load_page

_log = logging.getLogger(__name__)
_DIGITS = "0123456789abcdef"
_BATCH_PAGES = 512
_BATCH_BYTES = 8 * 1024 * 1024
_BATCH_SECONDS = 5.0  # a killed process loses the pages of this long
_REFRESH_SECONDS = 5.0  # between looks for files of other processes
_GROUP_PAGES = 32  # pages that are read at once
_CACHED_GROUPS = 32
_THREADS = 8
_MERGED_FILES, _MERGED_BYTES = 8, 16 * 1024 * 1024  # this many files of a folder, up to this size, become one
_SCHEMA = pa.schema([("key", pa.binary(16)), ("data", pa.binary())])
_FAILURES = (OSError, pa.ArrowException, RunError)
Given = TypeVar("Given")
Made = TypeVar("Made")
Place = tuple[str, int, int]  # file, row group, row in it


@dataclass
class _Folder:
    """The pages of a folder that this process has seen."""

    places: dict[bytes, Place] = field(default_factory=dict[bytes, Place])
    files: set[str] = field(default_factory=set[str])
    looked_at: float | None = None


class ObjectPageStore:
    """Implements PageStore below an address like s3://bucket/pages."""

    def __init__(self, location: str, access: S3Access | None = None) -> None:
        self._access = access
        self._location = f"{location.rstrip('/')}/v1"
        self._folders = {digit: _Folder() for digit in _DIGITS}
        self._groups: OrderedDict[tuple[str, int], Sequence[bytes]] = OrderedDict()
        self._pending: dict[bytes, tuple[str, Page]] = {}
        self._pending_bytes = 0
        self._pending_since = 0.0
        self._failed = False

    def add(self, variant: str, page: Page) -> None:
        if not self._pending:
            self._pending_since = time.monotonic()
        self._pending[hash_key(variant, page.requested_url)] = variant, page
        self._pending_bytes += len(page.body)
        self.flush()

    def lookup(self, variant: str, url: str) -> Page | None:
        key = hash_key(variant, url)
        if key in self._pending:
            return self._pending[key][1]
        data = self._read(key)
        return load_page(data, variant, url) if data is not None else None

    def find(self, key: bytes) -> tuple[str, Page] | None:
        data = self._read(key)
        return decode_page(data) if data is not None else None

    def _read(self, key: bytes) -> bytes | None:
        for _ in range(0 if self._failed else 2):
            try:
                digit = _get_digit(key)
                folder = self._folders[digit]
                is_due = folder.looked_at is None or time.monotonic() - folder.looked_at > _REFRESH_SECONDS
                if key not in folder.places and is_due:
                    self._refresh(digit, folder)
                place = folder.places.get(key)
                if place is None:
                    return None
                file, group, row = place
                return self._read_group(file, group)[row]
            except FileNotFoundError:  # merged or deleted in the meantime
                self._folders[_get_digit(key)] = _Folder()
            except _FAILURES:
                self._disable()
                break
        return None

    def flush(self, force: bool = False) -> None:
        is_full = len(self._pending) >= _BATCH_PAGES or self._pending_bytes >= _BATCH_BYTES
        is_due = time.monotonic() - self._pending_since >= _BATCH_SECONDS
        if not (is_full or is_due or force) or not self._pending:
            return
        records: dict[str, list[tuple[bytes, bytes]]] = {}
        for key, (variant, page) in self._pending.items():
            records.setdefault(_get_digit(key), []).append((key, dump_page(variant, page)))
        self._pending.clear()
        self._pending_bytes = 0
        if self._failed:
            return
        name = f"{time.time_ns() // 1000:016d}-{uuid.uuid4().hex}.parquet"
        try:
            _run_parallel(
                records, lambda digit: write_file(f"{self._location}/{digit}/{name}", _encode(records[digit]))
            )
        except _FAILURES:
            self._disable()
        for digit in records:
            self._folders[digit].looked_at = None

    def compact(self, max_age_seconds: float, max_bytes: int) -> None:
        """Delete whole batches, and merge the small files of each folder."""
        try:
            found = dict(zip(_DIGITS, _run_parallel(_DIGITS, self._list), strict=True))
            batches: dict[str, list[StoredFile]] = {}
            for file in (file for files in found.values() for file in files):
                batches.setdefault(file.name, []).append(file)
            oldest, size = (time.time() - max_age_seconds) * 1e6, sum(each.size for b in batches.values() for each in b)
            deleted: list[str] = []
            for name in sorted(batches):
                if int(name.partition("-")[0]) >= oldest and size <= max_bytes:
                    break
                size -= sum(file.size for file in batches[name])
                deleted += [file.path for file in batches[name]]
            _run_parallel(deleted, delete_file)
            kept = {digit: [file for file in files if file.path not in deleted] for digit, files in found.items()}
            _run_parallel(_DIGITS, lambda digit: self._merge(digit, kept[digit]))
        except (pa.ArrowException, RunError) as error:
            raise OSError(str(error)) from error
        self._folders = {digit: _Folder() for digit in _DIGITS}

    def close(self) -> None:
        self.flush(force=True)
        self._groups.clear()

    def _refresh(self, digit: str, folder: _Folder) -> None:
        """Read the keys of new files; those of later batches replace earlier ones."""
        new = [file.path for file in self._list(digit) if file.path not in folder.files]
        for path, groups in zip(new, _run_parallel(new, self._read_keys), strict=True):
            folder.files.add(path)
            for group, keys in enumerate(groups):
                for row, key in enumerate(keys):
                    before = folder.places.get(key)
                    if before is None or before[0] <= path:
                        folder.places[key] = path, group, row
        folder.looked_at = time.monotonic()

    def _read_group(self, file: str, group: int) -> Sequence[bytes]:
        if (file, group) not in self._groups:
            with _open(file, self._access) as parquet:
                self._groups[file, group] = parquet.read_row_group(group, columns=["data"]).column(0).to_pylist()
            while len(self._groups) > _CACHED_GROUPS:
                self._groups.popitem(last=False)
        self._groups.move_to_end((file, group))
        return self._groups[file, group]

    def _merge(self, digit: str, files: Sequence[StoredFile]) -> None:
        """Make one file of many small ones. Readers that still know these look again."""
        small: list[StoredFile] = []
        for file in files:
            if sum(each.size for each in small) + file.size <= _MERGED_BYTES:
                small.append(file)
        if len(small) < _MERGED_FILES:
            return
        pages: dict[bytes, bytes] = {}
        for file in small:  # by the time of their batches
            with _open(file.path) as parquet:
                table = parquet.read()
            pages |= dict(zip(table.column("key").to_pylist(), table.column("data").to_pylist(), strict=True))
        name = f"{small[-1].name.partition('-')[0]}-{uuid.uuid4().hex}.parquet"
        write_file(f"{self._location}/{digit}/{name}", _encode(list(pages.items())))
        for file in small:
            delete_file(file.path)

    def _list(self, digit: str) -> list[StoredFile]:
        return list_data_files(f"{self._location}/{digit}", access=self._access)

    def _read_keys(self, path: str) -> list[list[bytes]]:
        """Return the keys of a file by row group; none for a file that was deleted in the meantime."""
        try:
            with _open(path, self._access) as parquet:
                groups = range(parquet.num_row_groups)
                return [parquet.read_row_group(group, columns=["key"]).column(0).to_pylist() for group in groups]
        except FileNotFoundError:
            return []

    def _disable(self) -> None:
        _log.warning("the page cache %s cannot be used; pages are fetched again", self._location, exc_info=True)
        self._failed = True


def _run_parallel(items: Iterable[Given], function: Callable[[Given], Made]) -> list[Made]:
    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(function, items))


def _get_digit(key: bytes) -> str:
    return f"{key[0] >> 4:x}"


def _open(path: str, access: S3Access | None = None) -> pq.ParquetFile:
    files, name = open_filesystem(path, access)
    return pq.ParquetFile(name, filesystem=files)


def _encode(records: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return a Parquet file; the records are compressed already."""
    keys, data = zip(*records, strict=True)
    file = BytesIO()
    table = pa.table([pa.array(keys, pa.binary(16)), pa.array(data, pa.binary())], schema=_SCHEMA)
    pq.write_table(table, file, row_group_size=_GROUP_PAGES, compression="none", use_dictionary=False)
    return file.getvalue()
