"""Groups of pages in files: Arrow streams that one writer each appends to.

Each page is compressed by itself, so that one that is wanted costs no reading of its neighbours' bodies.
A file's end may be missing, as after a kill; what stands before it counts.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, NamedTuple
from uuid import uuid4

import pyarrow as pa
from xxhash import xxh3_64_intdigest

from pipelines.fetch.page import Page

SUFFIX = ".pages"
GROUP_PAGES = 64
_GROUP_BYTES = 4 * 1024 * 1024
_GROUP_SECONDS = 1.0  # a kill loses no more than what came in so many
_FILE_BYTES = 64 * 1024 * 1024

# `content`: head and body by LZ4, `bytes` long without it, and its `checksum`
# `fetched_at` in microseconds: of its timestamps, Arrow makes Python objects slowly
SCHEMA = pa.schema(
    [
        ("key", pa.uint64()),
        ("variant", pa.string()),
        ("requested_url", pa.string()),
        ("url", pa.string()),
        ("status", pa.int32()),
        ("content_type", pa.string()),
        ("charset", pa.string()),
        ("fetched_at", pa.int64()),
        ("redirects", pa.list_(pa.string())),
        ("head_bytes", pa.int32()),
        ("bytes", pa.int32()),
        ("checksum", pa.uint64()),
        ("content", pa.binary()),
    ]
)
_LZ4 = pa.Codec("lz4_raw")
_KEYS_ALONE = pa.ipc.IpcReadOptions(included_fields=[0])

Entry = tuple[int, str, Page]
_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)


class Place(NamedTuple):
    """Where a page stands: file, the byte at which its group begins, and its row in the group."""

    file: str
    offset: int
    row: int


class GroupWriter:
    """Appends groups to one file after another. The file being written is locked, so that nobody tidies it away."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None

    def write(self, entries: Sequence[Entry]) -> list[Place]:
        """Writes one group; it is found by who looks from now on."""
        self._file = file = self._file or self._begun()
        offset = file.tell()
        file.write(_batch(entries).serialize())
        file.flush()
        if file.tell() >= _FILE_BYTES:
            self.close()
        return [Place(str(file.name), offset, row) for row in range(len(entries))]

    def close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None

    def _begun(self) -> IO[bytes]:
        """A new file, with the stream's schema in it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        file = (self._folder / f"{time.time_ns():020}-{uuid4().hex}{SUFFIX}").open("xb")
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(SCHEMA.serialize())
        return file


class Pending:
    """Pages that wait to be written together."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self._bytes = 0
        self._since = 0.0

    def add(self, entry: Entry) -> None:
        if not self.entries:
            self._since = time.monotonic()
        self.entries[entry[0]] = entry
        self._bytes += len(entry[2].body)

    def due(self) -> bool:
        if not self.entries:
            return False
        full = len(self.entries) >= GROUP_PAGES or self._bytes >= _GROUP_BYTES
        return full or time.monotonic() - self._since >= _GROUP_SECONDS

    def take(self) -> list[Entry]:
        entries = list(self.entries.values())
        self.entries.clear()
        self._bytes = 0
        return entries


def keys(path: str) -> Iterator[tuple[int, list[int]]]:
    """Of each whole group of a file: where it begins, and the keys of its pages; bodies are not read."""
    try:
        with pa.memory_map(path) as source:
            stream = pa.ipc.open_stream(source, options=_KEYS_ALONE)
            while True:
                offset = source.tell()
                yield offset, stream.read_next_batch().column(0).to_pylist()
    except (StopIteration, pa.ArrowException, OSError):
        return  # the end, whole or not; or the file was tidied away


class GroupReader:
    """Pages of one group: their bodies mapped into memory, all else read."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        *columns, self._contents = batch.columns
        self._rows = list(zip(*(column.to_pylist() for column in columns), strict=True))

    @classmethod
    def open(cls, path: str, offset: int) -> GroupReader | None:
        """The group that begins at `offset`; None when the file was tidied away, or is not what was written."""
        try:
            with pa.memory_map(path) as source:
                source.seek(offset)
                batch = pa.ipc.read_record_batch(pa.ipc.read_message(source), SCHEMA)
                batch.validate(full=True)
                return cls(batch)
        except (pa.ArrowException, EOFError, OSError):
            return None

    def entry(self, row: int) -> Entry | None:
        """The page of a row; None where the disk no longer has what was written."""
        key, variant, requested_url, *cells, head_bytes, size, checksum = self._rows[row]
        url, status, content_type, charset, fetched_at, redirects = cells
        content = self._contents[row].as_buffer()
        if _checksum(content, size) != checksum:
            return None
        whole = _LZ4.decompress(content, size, asbytes=True)
        body, head = whole[head_bytes:], whole[:head_bytes]
        at = _EPOCH + fetched_at * _MICROSECOND
        page = Page(requested_url, url, status, None, content_type, charset, body, at, tuple(redirects), head)
        return key, variant, page


def _batch(entries: Sequence[Entry]) -> pa.RecordBatch:
    columns = zip(*(_row(*entry) for entry in entries), strict=True)
    arrays = [pa.array(column, each.type) for column, each in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _row(key: int, variant: str, page: Page) -> tuple[object, ...]:
    whole = page.head + page.body
    content = _LZ4.compress(whole, asbytes=True)
    return (
        key,
        variant,
        page.requested_url,
        page.url,
        page.status,
        page.content_type,
        page.charset,
        (page.fetched_at - _EPOCH) // _MICROSECOND,
        page.redirects,
        len(page.head),
        len(whole),
        _checksum(content, len(whole)),
        content,
    )


def _checksum(content: bytes | pa.Buffer, size: int) -> int:
    """Of the content, and of the size that LZ4 has to be told."""
    return xxh3_64_intdigest(content, size)
