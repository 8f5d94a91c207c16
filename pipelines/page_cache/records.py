"""Pages as bytes: the key of a page, and its compressed record with a checksum."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import blake2b
from struct import Struct

import pyarrow as pa
from msgspec.msgpack import Decoder, Encoder
from xxhash import xxh3_64_intdigest

from pipelines.fetch.page import Page

_HEADER = Struct("<QI")  # checksum and size of the uncompressed record
_Record = tuple[str, str, str, int | None, str | None, str | None, float, tuple[str, ...], bytes, bytes]
_lz4 = pa.Codec("lz4_raw")
_encode = Encoder().encode
_decode = Decoder(_Record).decode


def hash_key(variant: str, url: str) -> bytes:
    """Return a key that no site can make equal to that of another site's page."""
    return blake2b(f"{variant}\n{url}".encode(), digest_size=16).digest()


def dump_page(variant: str, page: Page) -> bytes:
    about = (page.status, page.content_type, page.charset, page.fetched_at.timestamp(), page.redirects)
    record = _encode((variant, page.requested_url, page.url, *about, page.head, page.body))
    return _HEADER.pack(xxh3_64_intdigest(record), len(record)) + _lz4.compress(record, asbytes=True)


def load_page(data: bytes, variant: str, url: str) -> Page | None:
    """Return the stored page; None if the disk has changed it."""
    try:
        checksum, size = _HEADER.unpack_from(data)
        record = _lz4.decompress(data[_HEADER.size :], size, asbytes=True)
    except (pa.ArrowException, OSError, ValueError):
        return None
    if xxh3_64_intdigest(record) != checksum:
        return None
    stored_variant, requested_url, final_url, status, content_type, charset, seconds, redirects, head, body = _decode(
        record
    )
    if (stored_variant, requested_url) != (variant, url):
        return None
    fetched_at = datetime.fromtimestamp(seconds, UTC)
    return Page(requested_url, final_url, status, None, content_type, charset, body, fetched_at, redirects, head)
