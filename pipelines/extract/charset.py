"""The text of a page's bytes, decoded as browsers do (WHATWG Encoding, HTML and MIME Sniffing standards)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from chardetng_py import EncodingDetector
from webencodings import lookup

from pipelines.extract.kinds import Kind
from pipelines.fetch.page import find_bom

_PRESCAN = 1024  # bytes in which a meta element counts even inside a script
_LONGEST_META = 4096  # bytes
_MOST_METAS = 100  # after the prescan; hostile ones have a thousand attributes each
_DETECTION_BYTES = 64 * 1024  # bytes for the detection of an undeclared encoding
_NO_LETTERS = bytes(range(0xC0))  # a few non-letters like £ or “” would be detected as any language
_FEWEST_LETTERS = 3
_VALUE = rb"""(?:"[^"]*+"|'[^']*+'|(?!["'])[^\s>]*+)"""
_NAMED = rb"[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+" + _VALUE + rb")?+"
_META_LENGTH = len(b"<meta")
_OTHER_TAG = rb"/?[a-z][^\s/>]*+(?:" + _NAMED + rb")*+|[!/?][^>]*+"  # with its attributes, in which nothing counts
_META = re.compile(rb"(?is)<(?:!--.*?(?:-->|\Z)|(meta)(?=[\s/])|" + _OTHER_TAG + rb")")
_LATER_META = re.compile(
    rb"(?is)<(?:!--.*?(?:-->|\Z)|(script|style|title|noscript)[\s/>].*?(?:</\1|\Z)|meta(?=[\s/])|/head[\s>]|body[\s>]|"
    + _OTHER_TAG
    + rb")"
)
# a beginning whose tags are closed: what follows it cannot change how it is read
_CLOSED = re.compile(
    rb"[^<]*+(?:<[!/]?[a-zA-Z0-9]++(?:\s++[a-zA-Z0-9:-]++(?:=(?:\"[^\"<>]*+\"|[^\s\"'<>=]++))?)*\s*+/?>[^<]*+)*"
)
_ATTRIBUTE = re.compile(rb"[\s/]*+([^\s/>][^\s/>=]*+)(?:\s*+=\s*+(" + _VALUE + rb"))?+")
_TAG_END = re.compile(rb"[\s/]*+>")
_CONTENT_CHARSET = re.compile(rb"""(?i)charset\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s;"'][^\s;]*+))""")
_XML_ENCODING = re.compile(rb"""<\?xml[^>]*?\sencoding\s*+=\s*+["']([^"'>]*+)["']""")
# ASCII that a rare encoding must not change, unlike UTF-7 and Python's escapes, and then any other bytes
_PROBE = rb"""0123456789 abcxyz ABCXYZ <>&"'=/?!-.;:#_ +AGE- \u0041""" + bytes(range(0x80, 0x100))
_WIDE_STARTS = {b"<\0?\0x\0": "utf-16-le", b"\0<\0?\0x": "utf-16-be"}
_WIDE_ELEMENTS = {b"<\0": "utf-16-le", b"\0<": "utf-16-be"}  # in XML (XML 1.0, appendix F)

# Encodings that browsers decode by a wider codec than webencodings does; they do not decode "replacement".
_CODECS = {"gbk": "gb18030", "x-user-defined": "cp1252", "replacement": None}
# windows-1252 differs from latin-1 in 0x80 to 0x9f; browsers keep control characters at its gaps.
_WINDOWS_1252 = {byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(0x80, 0xA0)}


class Encoding(NamedTuple):
    """Python's codec for a body, and the length of its BOM."""

    codec: str
    start: int


def decode(body: bytes, encoding: Encoding) -> str:
    """Return the text of a body; invalid bytes become U+FFFD."""
    if encoding.codec == "cp1252":
        return body.decode("latin-1").translate(_WINDOWS_1252)
    return body[encoding.start :].decode(encoding.codec, "replace")


def to_utf8(body: bytes, encoding: Encoding) -> bytes:
    """Convert `body` to UTF-8. Invalid bytes in a page of UTF-8 remain: lexbor replaces them by U+FFFD."""
    return body[encoding.start :] if encoding.codec == "utf-8" else decode(body, encoding).encode()


def find_encoding(body: bytes, header: str | None, kind: Kind) -> Encoding:
    """Find the encoding by the BOM, the charset of the header, the page's own declaration, as UTF-8, or by detection.

    JSON is in UTF-8 whatever the header says, unless it is not.
    """
    if bom := find_bom(body):
        return Encoding(*bom)
    if kind in ("json", "json-lines") and (codec := _find_json_encoding(body)):
        return Encoding(codec, 0)
    codec = _get_codec(header) or (None if kind == "html" else _get_rare_codec(header))
    if codec is None and kind == "html":
        codec = _find_declared(body)
    elif codec is None and kind in ("xml", "xhtml"):
        codec = _WIDE_ELEMENTS.get(body[:2]) or _find_xml_declared(body, _get_rare_codec)
    return Encoding(codec or ("utf-8" if _is_utf8(body) else _detect(body)), 0)


def _find_json_encoding(body: bytes) -> str | None:
    if 0 in body[:4]:
        return json.detect_encoding(body)
    return "utf-8" if _is_utf8(body) else None


def _is_utf8(body: bytes) -> bool:
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _detect(body: bytes) -> str:
    """Detect the codec by the beginning of `body`, as Firefox does; cp1252 with hardly any letters beyond ASCII.

    Takes 0.2 ms for 2 KB, 6 to 10 ms from 64 KB.
    """
    start = body[:_DETECTION_BYTES]
    if len({*start.translate(None, _NO_LETTERS)}) < _FEWEST_LETTERS:
        return "cp1252"
    detector = EncodingDetector()
    detector.feed(start, last=len(start) == len(body))
    guess = detector.guess(tld=None, allow_utf8=False)
    return _get_codec(guess) or guess  # chardetng calls cp874 as Python does


_latest: tuple[bytes, str] | None = None  # the beginning that declared an encoding last, and its codec


def _find_declared(body: bytes) -> str | None:
    """Return the codec that a meta element in the head of a page names, or else its XML declaration.

    The pages of a site mostly begin alike: a beginning is read once for those that follow one another.
    """
    global _latest
    if (latest := _latest) and body.startswith(latest[0]):
        return latest[1]
    if wide := _WIDE_STARTS.get(body[:6]):
        return wide
    at = 0
    while match := _META.search(body, at, _PRESCAN):
        at = match.end()
        if match[1]:
            codec, at = _read_meta(body, at)
            if codec:
                if _CLOSED.fullmatch(start := body[: body.index(b">", at) + 1]):
                    _latest = start, codec
                return codec
    declared = _find_xml_declared(body)
    if declared or b"charset" not in body[_PRESCAN - _META_LENGTH :].lower():  # without which no later meta counts
        return declared
    left, at = _MOST_METAS, 0
    while left and (match := _LATER_META.search(body, at)):
        found, at = match[0].lower(), match.end()
        if found.startswith((b"</head", b"<body")):
            break
        if found == b"<meta" and match.start() >= _PRESCAN - _META_LENGTH:
            left -= 1
            codec, at = _read_meta(body, at)
            if codec:
                return codec
    return None


def _read_meta(body: bytes, start: int) -> tuple[str | None, int]:
    """Return the codec that the meta element names whose attributes begin at `start`, and where they end."""
    charset, content, is_pragma, has_charset = None, None, False, False
    limit = start + _LONGEST_META
    while attribute := _ATTRIBUTE.match(body, start, limit):
        start, name, value = attribute.end(), attribute[1].lower(), attribute[2] or b""
        value = value[1:-1] if value[:1] in (b'"', b"'") else value
        if name == b"charset" and not has_charset:
            charset, has_charset = value, True
        elif name == b"content" and content is None:
            content = value
        elif name == b"http-equiv":
            is_pragma = is_pragma or value.lower() == b"content-type"
    if not _TAG_END.match(body, start, limit):  # the page ends within the tag
        return None, start
    if not has_charset and is_pragma and content and (named := _CONTENT_CHARSET.search(content)):
        charset = next(each for each in named.groups() if each is not None)
    codec = _get_codec(charset.decode("latin-1")) if charset is not None else None
    # in UTF-16 the meta element would not have been found
    return "utf-8" if codec and codec.startswith("utf-16") else codec, start


def _find_xml_declared(body: bytes, get_other: Callable[[str], str | None] = lambda label: None) -> str | None:
    """Return the codec that an XML declaration names; `get_other` gives those that browsers do not know."""
    if (declared := _XML_ENCODING.match(body)) is None:
        return None
    label = declared[1].decode("latin-1")
    codec = _get_codec(label) or get_other(label)
    return "utf-8" if codec and codec.startswith("utf-16") else codec


def find_unknown_label(body: bytes, header: str | None) -> str | None:
    """Return the encoding that an XML declaration names and that cannot be decoded, unless the body is UTF-8."""
    declared = _XML_ENCODING.match(body)
    label = declared[1].decode("latin-1") if declared else None
    is_known = label is None or _get_codec(label) or _get_rare_codec(label)
    return None if is_known or _get_codec(header) or _get_rare_codec(header) or _is_utf8(body) else label


@lru_cache(maxsize=256)
def _get_codec(label: str | None) -> str | None:
    """Return Python's codec for the `label` of an encoding that browsers know."""
    encoding = lookup(label) if label else None
    return _CODECS.get(encoding.name, encoding.codec_info.name) if encoding else None


@lru_cache(maxsize=256)
def _get_rare_codec(label: str | None) -> str | None:
    """Return Python's codec for an encoding that no browser knows but XML and headers may name, like IBM850.

    Only for encodings that contain ASCII: in another one the declaration would not have been read.
    """
    if not label or lookup(label):
        return None
    try:
        return label if _PROBE.decode(label, "replace").startswith(_PROBE[:-0x80].decode()) else None
    except (LookupError, ValueError):
        return None
