"""Groups of pages in files, which one writer each appends to.

A group is compressed as one: pages of a site share most of their markup, and what is read next stands beside.
A file's end may be missing, as after a kill; what stands before it counts.
"""

from __future__ import annotations

import fcntl
import os
import time
from array import array
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from io import BufferedReader, FileIO
from pathlib import Path
from struct import Struct
from typing import IO, NamedTuple
from uuid import uuid4

import pyarrow as pa
from xxhash import xxh3_64_intdigest

from pipelines.fetch.page import Page

SUFFIX = ".pages"
_GROUP_PAGES = 64
_GROUP_BYTES = 64 * 1024  # what LZ4 looks back on; all of a group is undone for one page of it
_ALONE_BYTES = 32 * 1024  # a page from so many on is a group: it is found and undone without another
_GROUP_SECONDS = 1.0  # a kill loses no more than what came in so many
_FILE_BYTES = 64 * 1024 * 1024
_FILES_OPEN = 16  # to open one anew for each group costs as much as to undo a small one

# a group: its header, the key of each page, where the record of each begins, and the records, by LZ4
_HEADER = Struct("=8sIIIQ")
_SIZES = Struct("=III")
_MAGIC = b"pages\r\n4"
_KEY_BYTES, _START_BYTES = 8, 4
# a record: when its page came, in seconds, status, bytes of its texts, head and body, and these three
_RECORD = Struct("=dIIII")
_SEPARATOR = "\0"  # stands in no address and in no header
_LZ4 = pa.Codec("lz4_raw")

Entry = tuple[int, str, Page]


class Place(NamedTuple):
    """Where a page stands: file, and the byte at which its group begins."""

    file: str
    offset: int


class GroupWriter:
    """Appends groups to one file after another. The file being written is locked, so that nobody tidies it away."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None

    def write(self, entries: Sequence[Entry]) -> Place:
        """Writes one group; it is found by who looks from now on."""
        self._file = file = self._file or self._begun()
        place = Place(str(file.name), file.tell())
        file.write(_group(entries))
        file.flush()
        if file.tell() >= _FILE_BYTES:
            self.close()
        return place

    def close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None

    def _begun(self) -> IO[bytes]:
        self._folder.mkdir(parents=True, exist_ok=True)
        file = (self._folder / f"{time.time_ns():020}-{uuid4().hex}{SUFFIX}").open("xb")
        fcntl.flock(file, fcntl.LOCK_EX)
        return file


class Pending:
    """Pages that wait to be written together."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self._bytes = 0
        self._full = False
        self._since = 0.0

    def add(self, entry: Entry) -> None:
        if not self.entries:
            self._since = time.monotonic()
        self.entries[entry[0]] = entry
        self._bytes += len(entry[2].body)
        self._full = self._bytes >= _GROUP_BYTES or len(self.entries) >= _GROUP_PAGES or _is_large(entry)

    def fits(self, entry: Entry) -> bool:
        """Whether the page may stand with those that wait; a large one is alone, not to weigh on others."""
        return not self.entries or not _is_large(entry)

    def due(self) -> bool:
        return bool(self.entries) and (self._full or time.monotonic() - self._since >= _GROUP_SECONDS)

    def take(self) -> list[Entry]:
        entries = list(self.entries.values())
        self.entries.clear()
        self._bytes = 0
        return entries


class Group:
    """The pages of one group, each made when it is asked for. `size` is what they take, in bytes."""

    def __init__(self, starts: dict[int, int], records: bytes) -> None:
        self.size = len(records)
        self.alone = len(starts) == 1
        self._starts = starts
        self._records = records

    def get(self, key: int) -> Entry | None:
        start = self._starts.get(key)
        if start is None:
            return None
        records = self._records
        seconds, status, text_bytes, head_bytes, body_bytes = _RECORD.unpack_from(records, start)
        head_at = start + _RECORD.size + text_bytes
        body_at = head_at + head_bytes
        texts = records[start + _RECORD.size : head_at].decode().split(_SEPARATOR)
        variant, requested_url, url, content_type, charset, *redirects = texts
        head, body = records[head_at:body_at], records[body_at : body_at + body_bytes]
        fetched_at = datetime.fromtimestamp(seconds, UTC)
        about = (status, None, content_type or None, charset or None)
        return key, variant, Page(requested_url, url, *about, body, fetched_at, tuple(redirects), head)


class GroupReader:
    """Reads groups; the last files that it opened stay so until `close`."""

    def __init__(self) -> None:
        self._files: dict[str, FileIO] = {}

    def read(self, place: Place) -> Group | None:
        """The group at `place`; None when the file was tidied away, or the disk no longer has what was written."""
        try:
            file = self._opened(place.file)
            file.seek(place.offset)
            header = _header(file)
            rest = file.read(header.rest) if header else b""
        except OSError:
            return None
        if not header or header.checksum != _checksum(rest, header.pages, header.compressed, header.size):
            return None
        starts_at = header.pages * _KEY_BYTES
        records_at = starts_at + header.pages * _START_BYTES
        starts = zip(array("Q", rest[:starts_at]), array("I", rest[starts_at:records_at]), strict=True)
        return Group(dict(starts), _LZ4.decompress(memoryview(rest)[records_at:], header.size, asbytes=True))

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _opened(self, path: str) -> FileIO:
        file = self._files.get(path)
        if file is None:
            if len(self._files) >= _FILES_OPEN:
                self._files.pop(next(iter(self._files))).close()
            file = self._files[path] = FileIO(path)
        return file


def of_this_format(path: Path) -> bool:
    """Whether the file begins with a group as it is written here; one of an older format holds nothing to be found."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def keys(path: str) -> Iterator[tuple[int, array[int]]]:
    """Of each whole group of a file: where it begins, and the keys of its pages; nothing else is read."""
    try:
        with Path(path).open("rb") as file:
            while header := _header(file):
                begin = file.tell()
                yield begin - _HEADER.size, array("Q", file.read(header.pages * _KEY_BYTES))
                file.seek(begin + header.rest)
    except OSError:
        return  # the file was tidied away


class _Header(NamedTuple):
    """`compressed` and `size` are the bytes of the records, `checksum` that of all else but the magic."""

    magic: bytes
    pages: int
    compressed: int
    size: int
    checksum: int

    @property
    def rest(self) -> int:
        """Bytes of the group after its header."""
        return self.pages * (_KEY_BYTES + _START_BYTES) + self.compressed


def _header(file: BufferedReader | FileIO) -> _Header | None:
    """The header of the group that begins here; None where no whole one does."""
    data = file.read(_HEADER.size)
    if len(data) < _HEADER.size:
        return None
    header = _Header._make(_HEADER.unpack(data))
    left = os.fstat(file.fileno()).st_size - file.tell()
    return header if header.magic == _MAGIC and header.rest <= left else None


def _group(entries: Sequence[Entry]) -> bytes:
    keys, starts, records = array("Q"), array("I"), list[bytes]()
    size = 0
    for key, variant, page in entries:
        addresses = (page.requested_url, page.url)
        texts = (variant, *addresses, page.content_type or "", page.charset or "", *page.redirects)
        text = _SEPARATOR.join(texts).encode()
        lengths = len(text), len(page.head), len(page.body)
        keys.append(key)
        starts.append(size)
        records += (_RECORD.pack(page.fetched_at.timestamp(), page.status, *lengths), text, page.head, page.body)
        size += _RECORD.size + sum(lengths)
    compressed = _LZ4.compress(b"".join(records), asbytes=True)
    rest = b"".join((keys, starts, compressed))
    sizes = len(keys), len(compressed), size
    return _HEADER.pack(_MAGIC, *sizes, _checksum(rest, *sizes)) + rest


def _checksum(rest: bytes, *sizes: int) -> int:
    return xxh3_64_intdigest(rest, xxh3_64_intdigest(_SIZES.pack(*sizes)))


def _is_large(entry: Entry) -> bool:
    return len(entry[2].body) >= _ALONE_BYTES
