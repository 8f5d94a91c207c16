"""Pages as WARC archives (ISO 28500): written without cookies and secrets, and read record by record."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from http import HTTPStatus
from io import BufferedReader, BytesIO
from itertools import pairwise
from typing import IO, Any, cast
from urllib.parse import urlsplit, urlunsplit

from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed
from warcio.recordloader import ArcWarcRecord
from warcio.statusandheaders import StatusAndHeaders, StatusAndHeadersParserException
from warcio.warcwriter import WARCWriter

from pipelines.fetch.content_encoding import UndecodableContent, decode_content
from pipelines.fetch.page import Page, parse_content_type
from pipelines.fetch.urls import MASK, canonical_url, list_spellings, mask_secrets

VARIANT_HEADER = "WARC-Spindle-Variant"
_SOFTWARE = "Spindle"
_DESCRIBES_TRANSFER = frozenset(("content-encoding", "content-length", "transfer-encoding", "connection", "trailer"))
_CREDENTIAL = re.compile(
    r"(?i)auth(?!or)|cookie|token|secret|(\b|[_-]|api|access)key(?![a-z])|session|passw|signature|csrf"
)
_HEADER = re.compile(rb"(?m)^([^\s:]+):[ \t]*([^\r\n]*)")
_PAGE_TYPES = ("response", "resource")
_GZIP = b"\x1f\x8b"
# warcio raises AttributeError for a record whose header was cut
_Failures = (ArchiveLoadFailed, StatusAndHeadersParserException, AttributeError, OSError, ValueError, zlib.error)


class PageArchive:
    """Writes pages into a compressed WARC stream; the `secrets` are masked wherever they are in an address or a body.

    Every redirect has its own record, so that other readers find the page by all addresses that led to it. Headers
    of cookies and credentials are left out, and so are values of credentials in addresses.
    """

    def __init__(
        self, stream: IO[bytes], about: Mapping[str, str] | None = None, secrets: tuple[str, ...] = ()
    ) -> None:
        self._writer = WARCWriter(stream, gzip=True, warc_version="1.1")
        self._secrets = list_spellings(secrets)
        self._written_secrets = list_spellings({*secrets, *map(escape, secrets), *map(_escape_json, secrets)})
        self._written = set[tuple[str, str]]()
        info = {"software": _SOFTWARE, "format": "WARC File Format 1.1", **(about or {})}
        self._writer.write_record(self._writer.create_warcinfo_record("", info))

    def add(self, page: Page, variant: str = "") -> None:
        """Write a page that has a status; `variant` distinguishes requests for the same address."""
        addresses = [page.requested_url, *page.redirects]
        if page.url != addresses[-1]:
            addresses.append(page.url)
        for address, following in pairwise(addresses):
            headers = [("Location", self._mask(following)), ("Content-Length", "0")]
            self._write(address, "302 Found", headers, b"", page.fetched_at, variant)
        body = page.body
        for secret in self._written_secrets:
            body = body.replace(secret.encode(), MASK.encode())
        headers = [*_select_headers(page), ("Content-Length", str(len(body)))]
        status = page.status or 200
        phrase = HTTPStatus(status).phrase if status in [*HTTPStatus] else ""
        self._write(addresses[-1], f"{status} {phrase}".rstrip(), headers, body, page.fetched_at, variant)

    def _write(
        self, url: str, status: str, headers: list[tuple[str, str]], body: bytes, at: datetime, variant: str
    ) -> None:
        if (url, variant) in self._written:  # a redirect that several pages share
            return
        self._written.add((url, variant))
        more = {"WARC-Date": at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")}
        if variant:
            more[VARIANT_HEADER] = variant
        record = self._writer.create_warc_record(
            self._mask(url),
            "response",
            payload=BytesIO(body),
            length=len(body),
            http_headers=StatusAndHeaders(status, headers, protocol="HTTP/1.1"),
            warc_headers_dict=more,
        )
        self._writer.write_record(record)

    def _mask(self, url: str) -> str:
        return mask_credentials(mask_secrets(url, self._secrets))


def _escape_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def stream_archive(pages: Iterable[tuple[str, Page]]) -> Generator[bytes]:
    """Yield the parts of an archive of the pages, each with its variant."""
    stream = BytesIO()
    archive = PageArchive(stream)
    for variant, page in pages:
        archive.add(page, sha256(variant.encode()).hexdigest()[:16])
        yield stream.getvalue()
        stream.seek(0)
        stream.truncate()


@dataclass(slots=True)
class ArchiveReading:
    """What was found while an archive was read: `problem` is a sentence about the part that could not be read.

    `about` has the fields of the archive's own description, and `left_out` the number of records by their type.
    """

    about: dict[str, str] = field(default_factory=dict[str, str])
    left_out: dict[str, int] = field(default_factory=dict[str, int])
    problem: str | None = None


def read_archive(stream: IO[bytes], reading: ArchiveReading, max_body: int) -> Iterator[tuple[str, Page]]:
    """Yield variant and page of each answer in a WARC or ARC stream, compressed or not; redirects are pages too.

    A page above `max_body` bytes has an `error` and the beginning of its body. An archive that was cut, or is damaged,
    ends with its last whole record, and `reading` says so.
    """
    source, count = _Source(stream), 0
    try:
        for record in ArchiveIterator(source, arc2warc=True, ensure_http_headers=False):
            if record.rec_type == "warcinfo":
                reading.about |= _read_fields(record.content_stream().read(max_body))
            elif record.rec_type not in _PAGE_TYPES:
                reading.left_out[record.rec_type] = reading.left_out.get(record.rec_type, 0) + 1
            elif (page := _read_page(record, max_body)) is not None and not _is_cut(record):
                count += 1
                yield record.rec_headers.get_header(VARIANT_HEADER) or "", page
            if _is_cut(record):
                source.was_cut = True
                break
    except _Failures as error:
        if not source.was_cut:
            what = "it is damaged" if count or reading.about or reading.left_out else "it is no WARC archive"
            reading.problem = f"{what}, after {count:,} pages: {str(error).strip() or type(error).__name__}"
    finally:
        source.close()
    if reading.problem is None and source.ends_early:
        reading.problem = f"it was cut: it ends in the middle of a record, after {count:,} pages"
    elif reading.problem is None and source.is_empty:
        reading.problem = "it is empty"


class _Source:
    """The bytes of an archive for warcio, unpacked: it takes the end of a file that was cut for the usual end.

    It is read to its end before `ends_early` is known.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._buffered = BufferedReader(cast("Any", stream))
        is_packed = self._buffered.peek(len(_GZIP)).startswith(_GZIP)
        self._stream = gzip.GzipFile(fileobj=self._buffered) if is_packed else self._buffered
        self._end = b""
        self._tail, self._position, self.was_cut = b"", 0, False

    def read(self, size: int = -1) -> bytes:
        try:
            data = self._stream.read1(size)
        except EOFError:
            self.was_cut, data = True, b""
        if not self._position:
            self._end = b"\r\n\r\n" if data.startswith(b"WARC/") else b"\n"
        self._tail, self._position = (self._tail + data[-4:])[-4:], self._position + len(data)
        return data

    def close(self) -> None:
        """Leave the stream, which is its owner's to close."""
        self._buffered.detach()

    def tell(self) -> int:
        return self._position

    @property
    def is_empty(self) -> bool:
        return self._position == 0

    @property
    def ends_early(self) -> bool:
        """Whether the file ends within a compressed member, or without the line ends that end every record."""
        return self.was_cut or not (self._tail.endswith(self._end) or self.is_empty)


def is_credential(name: str) -> bool:
    """Return whether a header or parameter of this name has a secret as its value."""
    return _CREDENTIAL.search(name) is not None


def mask_credentials(url: str) -> str:
    """Return the address with a mask for user information, and for values of parameters named like credentials."""
    parts = urlsplit(url)
    query = "&".join(
        f"{name}={MASK}" if equals and is_credential(name) else pair
        for pair in parts.query.split("&")
        for name, equals, _ in [pair.partition("=")]
    )
    host = parts.netloc.rpartition("@")[2]
    return url if (query, host) == (parts.query, parts.netloc) else urlunsplit(parts._replace(netloc=host, query=query))


def _select_headers(page: Page) -> Iterable[tuple[str, str]]:
    """Return the headers of the answer without cookies, credentials, and those about a transfer that has ended."""
    found = [(name.decode("latin-1"), value.decode("latin-1").strip()) for name, value in _HEADER.findall(page.head)]
    names = {name.lower() for name, _ in found}
    if "content-type" not in names and page.content_type:
        charset = f"; charset={page.charset}" if page.charset else ""
        found.append(("Content-Type", f"{page.content_type}{charset}"))
    return [
        (name, value) for name, value in found if name.lower() not in _DESCRIBES_TRANSFER and not is_credential(name)
    ]


def _read_fields(content: bytes) -> dict[str, str]:
    return {
        name.decode("latin-1").lower(): value.decode("utf-8", "replace") for name, value in _HEADER.findall(content)
    }


def _read_page(record: ArcWarcRecord, max_body: int) -> Page | None:
    """Return the page of a record; None for one that is of no web address."""
    url = canonical_url((record.rec_headers.get_header("WARC-Target-URI") or "").strip("<>"))
    if url is None:
        return None
    status, head = 200, b""
    content_type, charset = parse_content_type((record.content_type or "").encode("latin-1", "replace"))
    if record.rec_type == "response":
        if record.http_headers is None:
            return None
        fields = record.http_headers.headers
        head = "".join(f"{name}: {value}\r\n" for name, value in fields).encode("latin-1", "replace")
        code = record.http_headers.get_statuscode()
        status = int(code) if code and code.isascii() and code.isdigit() else None
        content_type, charset = parse_content_type(
            (record.http_headers.get_header("content-type") or "").encode("latin-1", "replace")
        )
        record.http_headers.remove_header("content-encoding")  # decoded below, within the limit
    body, error = record.content_stream().read(max_body + 1), None
    try:
        body = decode_content(body, head, max_body) if head else body
    except UndecodableContent:
        error, body = "its content cannot be decompressed", b""
    if len(body) > max_body:
        error, body = f"the page is larger than {max_body:,} bytes", body[:max_body]
    return Page(url, url, status, error, content_type, charset, body, _read_date(record), (), head)


def _read_date(record: ArcWarcRecord) -> datetime:
    try:
        date = datetime.fromisoformat(record.rec_headers.get_header("WARC-Date") or "")
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _is_cut(record: ArcWarcRecord) -> bool:
    """Return whether the stream has ended before the end of the record, which has been read."""
    while record.raw_stream.read(65536):  # a page above the limit
        pass
    return getattr(record.raw_stream, "limit", 0) > 0
