"""The pages of a job whose rows have been published: a Parquet file, sorted by the digests of their addresses."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.coordination.seen_pages import DIGEST_BYTES, PAGE
from pipelines.errors import RunError, summarize_error
from pipelines.fetch.urls import mask_secrets
from pipelines.filesystem import find_storage_failure, is_local, open_filesystem

# rows: a digest of the page's rows; checked: when the page was fetched or revalidated, in microseconds since 1970
SCHEMA = pa.schema(
    [
        ("page", PAGE),
        ("rows", pa.int64()),
        ("checked", pa.int64()),
        ("etag", pa.string()),
        ("last_modified", pa.string()),
    ]
)
_FILE = "pages.parquet"


class KnownPage(NamedTuple):
    """The stored state of one page."""

    rows: int
    checked: int
    etag: str | None
    last_modified: str | None


class KnownPages:
    """Looks up pages by the digest of their address; one million take about 60 MB of memory, 24 without validators."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        pages, *self._others = (_combine(table.column(name)) for name in SCHEMA.names)
        self._digests = _Digests(pages.buffers()[1] if len(pages) else None, len(pages))

    def __len__(self) -> int:
        return len(self._digests)

    def __contains__(self, digest: bytes) -> bool:
        return self._find_position(digest) is not None

    def find(self, digest: bytes) -> KnownPage | None:
        """Return the stored state of a page; None for a new one."""
        at = self._find_position(digest)
        return None if at is None else KnownPage(*(column[at].as_py() for column in self._others))

    def _find_position(self, digest: bytes) -> int | None:
        at = bisect_left(self._digests, digest)
        return at if at < len(self._digests) and self._digests[at] == digest else None


def _combine(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array that begins at its buffer's start."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


class _Digests:
    """The sorted digests of a column, without Python objects."""

    def __init__(self, buffer: pa.Buffer | None, length: int) -> None:
        self._view = memoryview(buffer) if buffer is not None else memoryview(b"")
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, at: int) -> bytes:
        if not 0 <= at < self._length:
            raise IndexError(at)
        return self._view[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES].tobytes()


def digest_address(url: str, job: str, secrets: Iterable[str] = ()) -> bytes:
    """Return the digest of a page's address, in which secrets are masked as in its column `_requestedUrl`."""
    masked = mask_secrets(url, tuple(secrets)) if secrets else url
    return blake2b(masked.encode(), digest_size=DIGEST_BYTES, key=job.encode()[:64]).digest()


@lru_cache(maxsize=1)
def load_known_pages(folder: str | None) -> KnownPages:
    """Return the pages in a folder, whose file is never changed; empty without a folder. Raises RunError."""
    if folder is None:
        return KnownPages(SCHEMA.empty_table())
    try:
        files, path = open_filesystem(f"{folder}/{_FILE}")
        return KnownPages(pq.read_table(path, filesystem=files, schema=SCHEMA))
    except (OSError, pa.ArrowException) as error:
        reason = find_storage_failure(str(error)) or RunError(
            f"the known pages of the job cannot be read: {summarize_error(error)}; "
            "`spindle reset PROJECT/JOB` forgets them"
        )
        raise reason from error


def write_known_pages(folder: str, table: pa.Table) -> None:
    """Write the pages of a job to a new folder, sorted by their digests. Raise RunError."""
    ordered = table.select(SCHEMA.names).cast(SCHEMA).sort_by("page")
    try:
        files, path = open_filesystem(folder)
        if is_local(folder):
            Path(path).mkdir(parents=True, exist_ok=True)
        with files.open_output_stream(f"{path}/{_FILE}") as stream:
            pq.write_table(ordered, stream, compression="zstd", use_dictionary=False, store_schema=False)
    except OSError as error:
        failure = find_storage_failure(str(error))
        raise failure or RunError(f"the known pages cannot be written: {summarize_error(error)}") from error
