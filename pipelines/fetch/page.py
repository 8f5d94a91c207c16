"""Fetched pages, and the header fields that describe them."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le"))
_BOM_STARTS = tuple(bom for bom, _ in _BOMS)
_CHARSET = re.compile(r"charset\s*+=\s*+[\"']?+\s*+([^\s\"';,]++)", re.IGNORECASE)
_TYPES = re.compile(r'(?:[^,"]|"(?:\\.|[^"\\])*+"|")++')  # of several headers in one
_MEDIA_TYPE = re.compile(r"\s*+([!#$%&'*+.^_`|~0-9a-z-]++/[!#$%&'*+.^_`|~0-9a-z-]++)\s*+(?:;|\Z)", re.IGNORECASE)
_UNKNOWN_TYPES = frozenset(("*/*", "unknown/unknown", "application/unknown"))
_MAX_OLD_HEADER = 64 * 1024  # bytes of header lines that survive a 304; new names with each answer would add up


@dataclass(slots=True)  # immutable by convention: frozen=True would make creating one six times slower
class Page:
    """The result of one fetch, successful or not.

    `status` is the final HTTP status, None without an answer; `error` is a sentence unless the whole page arrived.
    `url` is the final address, `redirects` are the addresses between `requested_url` and it. `content_type` and
    `charset` come from the Content-Type header, in lower case. `fetched_at` is in UTC. A page above the size limit has
    the beginning of its `body`; with any other `error` the body is empty. `head` has the header lines of the answer,
    `received` the size of the body before decompression (0 without a request). `attempts` are the requests that its
    last address took, in `seconds` with redirects; 0 for a page of the cache. `forbidden`: robots.txt disallows the
    page, so it was not requested. `position` numbers the documents of a visit that gives several; `kept` are the values
    of its actions by column, bytes for a picture.
    """

    requested_url: str
    url: str
    status: int | None
    error: str | None
    content_type: str | None
    charset: str | None
    body: bytes
    fetched_at: datetime
    redirects: tuple[str, ...] = ()
    head: bytes = b""
    received: int = field(default=0, compare=False)
    forbidden: bool = False
    attempts: int = field(default=0, compare=False)
    seconds: float = field(default=0.0, compare=False)
    position: int | None = None
    kept: Mapping[str, object] | None = None

    @property
    def ok(self) -> bool:
        return self.error is None and self.status is not None and self.status < 400

    def header(self, name: str) -> str | None:
        """Return the first header field of that name, in any case."""
        found = self.headers(name)
        return found[0] if found else None

    def headers(self, name: str) -> list[str]:
        """Return all header fields of that name, in their order."""
        if f"{name.lower()}:".encode() not in self.head.lower():  # the usual case, and faster than the pattern
            return []
        return [value.decode("latin-1").rstrip() for value in _header_pattern(name).findall(self.head)]


def refresh_page(page: Page, not_modified: Page) -> Page:
    """Return a cached `page` updated by a 304 answer (RFC 9111, section 4.3.4).

    Old header lines survive unless the answer replaces them.
    """
    names = {_header_name(line) for line in not_modified.head.splitlines(keepends=True)}
    old = b"".join(line for line in page.head.splitlines(keepends=True) if _header_name(line) not in names)
    head = not_modified.head + old if len(old) <= _MAX_OLD_HEADER else not_modified.head
    fields = (page.requested_url, page.url, page.status, None, page.content_type, page.charset, page.body)
    refreshed = Page(*fields, not_modified.fetched_at, page.redirects, head, not_modified.received)
    refreshed.attempts, refreshed.seconds = not_modified.attempts, not_modified.seconds
    return refreshed


@lru_cache(maxsize=256)
def parse_content_type(header: bytes) -> tuple[str | None, str | None]:
    """Return the media type and charset of a Content-Type header, in lower case.

    The type is None if it is malformed or unknown, so that the page is sniffed (WHATWG MIME Sniffing). The last type of
    several counts, with the charset of an equal one before it (WHATWG Fetch, extract a MIME type).
    """
    text, media_type, charset = header.decode("latin-1"), None, None
    for part in _TYPES.findall(text):
        named, found = _MEDIA_TYPE.match(part), _CHARSET.search(part)
        if named and (essence := named[1].lower()) not in _UNKNOWN_TYPES:
            charset = found[1] if found else charset if essence == media_type else None
            media_type = essence
    if media_type is None and (found := _CHARSET.search(text)):
        charset = found[1]
    return media_type, charset.lower() if charset else None


def find_bom(body: bytes) -> tuple[str, int] | None:
    """Return Python's codec for a body with a byte order mark, which wins over every header, and the mark's length."""
    if not body.startswith(_BOM_STARTS):
        return None
    return next((codec, len(bom)) for bom, codec in _BOMS if body.startswith(bom))


def decode_utf8(body: bytes) -> str:
    """Decode by the byte order mark, else as UTF-8 (WHATWG Encoding, section 6)."""
    codec, start = find_bom(body) or ("utf-8", 0)
    return body[start:].decode(codec, "replace")


def parse_http_date(text: str) -> datetime | None:
    """Return the date of a header (RFC 9110, section 5.6.7), UTC if it names no zone; None if it is malformed."""
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # overflow: a number with too many digits
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def parse_retry_after(value: str) -> float | None:
    """Return the seconds of a Retry-After header (RFC 9110, section 10.2.3); None if it is malformed."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    date = parse_http_date(value)
    return max(0.0, date.timestamp() - time.time()) if date else None


@lru_cache(maxsize=64)
def _header_pattern(name: str) -> re.Pattern[bytes]:
    return re.compile(rb"(?im)^%b:[ \t]*([^\r\n]*)" % re.escape(name.encode()))


def _header_name(line: bytes) -> bytes:
    """Return the lower-case name of a header line, empty for a status line."""
    name, separator, _ = line.partition(b":")
    return name.strip().lower() if separator else b""
