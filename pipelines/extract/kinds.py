"""What a page is read as: by its media type, or by its beginning (WHATWG MIME Sniffing standard)."""

from __future__ import annotations

import re
from typing import Literal

from pipelines.fetch.content_encoding import UndecodableContent, decompress_gzip
from pipelines.fetch.page import decode_utf8, find_bom

Parser = Literal["html", "xml", "json"]
Kind = Literal["html", "xhtml", "xml", "json", "json-lines", "text"]

_KINDS: dict[str, Kind] = {
    "text/html": "html",
    "application/xhtml+xml": "xhtml",
    "application/xml": "xml",
    "text/xml": "xml",
    "application/json": "json",
    "text/json": "json",
    "application/x-ndjson": "json-lines",
    "application/ndjson": "json-lines",
    "application/jsonl": "json-lines",
    "application/x-jsonlines": "json-lines",
    "application/jsonlines": "json-lines",
    "text/x-ndjson": "json-lines",
}
_GZIP_TYPES = frozenset(("application/gzip", "application/x-gzip", "application/octet-stream", "binary/octet-stream"))
_GZIP_START = b"\x1f\x8b"
_MAX_UNPACKED = 50 * 1024 * 1024  # bytes, the limit of sitemaps
_BEGINNING = 1024  # bytes, more than the standard's patterns take
_XML_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*<\?xml\s")
_HTML_START = re.compile(
    rb"(?i)(?:\xef\xbb\xbf)?\s*<"
    rb"(?:!--|(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)[\s>])"
)


def find_kind(media_type: str | None, body: bytes, parser: Parser | None) -> Kind:
    """Return the kind of a page: that of the pipeline, of its type, or without a type that of its beginning."""
    if parser:
        return parser
    if media_type is None:
        return _sniff(body)
    if kind := _KINDS.get(media_type):
        return kind
    return "xml" if media_type.endswith("+xml") else "json" if media_type.endswith("+json") else "text"


def _sniff(body: bytes) -> Kind:
    start = body[:_BEGINNING]
    if find_bom(start):
        start = decode_utf8(start).encode()
    if _XML_START.match(start):
        return "xml"
    return "html" if _HTML_START.match(start) else "text"


def unpack(media_type: str | None, body: bytes, parser: Parser | None) -> tuple[str | None, bytes]:
    """Return the content of a file of gzip with its type, which is unknown; other pages as they are.

    Raises UndecodableContent for a damaged file if the pipeline names its content; without that it may be an archive.
    """
    is_xml = media_type is not None and find_kind(media_type, b"", None) == "xml"
    if not body.startswith(_GZIP_START) or not (not media_type or media_type in _GZIP_TYPES or is_xml or parser):
        return media_type, body
    try:
        return (media_type if is_xml else None), decompress_gzip(body, _MAX_UNPACKED)
    except UndecodableContent:
        if parser:
            raise
        return media_type, body
