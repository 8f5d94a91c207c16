"""Groups of pages in files: Arrow streams that one writer each appends to.

Each page is compressed by itself, so that one that is wanted costs no reading of its neighbours.
A file's end may be missing, as after a kill; what stands before it counts.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
from zstandard import ZstdCompressor, ZstdDecompressor, ZstdError

from pipelines.fetch.page import Page

SUFFIX = ".pages"
GROUP_PAGES = 64
_GROUP_BYTES = 4 * 1024 * 1024
_GROUP_SECONDS = 1.0  # a kill loses no more than what came in so many
_FILE_BYTES = 64 * 1024 * 1024

# `content`: head and body, by zstd; `fetched_at` in microseconds: of its timestamps, Arrow makes Python objects slowly
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
        ("content", pa.binary()),
    ]
)
_BEGINNING = len(SCHEMA.serialize())  # where a stream's first group stands
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
        self._open: tuple[Any, Any] | None = None

    def write(self, entries: Sequence[Entry]) -> list[Place]:
        """Writes one group; it is found by who looks from now on."""
        self._open = file, stream = self._open or self._begun()
        offset = file.tell() or _BEGINNING
        stream.write_batch(_batch(entries))
        file.flush()
        if file.tell() >= _FILE_BYTES:
            self.close()
        return [Place(str(file.name), offset, row) for row in range(len(entries))]

    def close(self) -> None:
        if self._open:
            file, stream = self._open
            stream.close()
            file.close()
            self._open = None

    def _begun(self) -> tuple[Any, Any]:
        """A new file and the stream into it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        file = (self._folder / f"{time.time_ns():020}-{uuid4().hex}{SUFFIX}").open("xb")
        fcntl.flock(file, fcntl.LOCK_EX)
        return file, pa.ipc.new_stream(file, SCHEMA)


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
    except (StopIteration, pa.ArrowInvalid, OSError):
        return  # the end, whole or not; or the file was tidied away


class GroupReader:
    """Pages of one group, mapped into memory."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._columns = batch.columns
        self._zstd = ZstdDecompressor()

    @classmethod
    def open(cls, path: str, offset: int) -> GroupReader | None:
        """The group that begins at `offset`; None when the file was tidied away."""
        try:
            with pa.memory_map(path) as source:
                source.seek(offset)
                return cls(pa.ipc.read_record_batch(pa.ipc.read_message(source), SCHEMA))
        except (pa.ArrowInvalid, OSError):
            return None

    def entry(self, row: int) -> Entry | None:
        """The page of a row; None where the disk no longer has what was written."""
        key, variant, requested_url, *cells, content = (column[row].as_py() for column in self._columns)
        url, status, content_type, charset, fetched_at, redirects, head_bytes = cells
        try:
            whole = self._zstd.decompress(content)
        except ZstdError:
            return None
        body, head = whole[head_bytes:], whole[:head_bytes]
        at = _EPOCH + fetched_at * _MICROSECOND
        page = Page(requested_url, url, status, None, content_type, charset, body, at, tuple(redirects), head)
        return key, variant, page


def _batch(entries: Sequence[Entry]) -> pa.RecordBatch:
    zstd = ZstdCompressor(level=1, write_checksum=True)
    rows = (
        (
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
            zstd.compress(page.head + page.body),
        )
        for key, variant, page in entries
    )
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, each.type) for column, each in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
