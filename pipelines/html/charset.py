"""The text of a page's bytes, decoded as browsers do (WHATWG Encoding and HTML standards)."""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le"))
_BOM_BYTES = tuple(bom for bom, _ in _BOMS)
_PRESCAN = 1024
_META = re.compile(rb"(?s)<(?:!--.*?(?:-->|\Z)|[mM][eE][tT][aA][\s/]([^>]*))")
_META_CHARSET = re.compile(rb"(?is)charset\s*=\s*[\"']?\s*([^\s\"'/>;]+)")

# Labels that browsers read as another, wider encoding than Python's codec of that name.
_LABELS = {
    **dict.fromkeys(
        ("ascii", "us-ascii", "iso-8859-1", "iso8859-1", "iso_8859-1", "latin1", "latin-1", "l1"), "cp1252"
    ),
    **dict.fromkeys(("iso-8859-9", "iso8859-9", "latin5", "l5"), "cp1254"),
    **dict.fromkeys(("tis-620", "iso-8859-11", "windows-874", "dos-874"), "cp874"),
    **dict.fromkeys(("gb2312", "gbk", "gb_2312-80", "x-gbk", "chinese"), "gb18030"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "ms_kanji", "windows-31j"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "ksc5601", "korean", "windows-949"), "cp949"),
    **dict.fromkeys(("big5", "big5-hkscs", "cn-big5", "x-x-big5"), "big5hkscs"),
    **dict.fromkeys(("x-euc-jp",), "euc-jp"),
    **dict.fromkeys(("utf-16", "utf-16le", "ucs-2", "unicode"), "utf-16-le"),
    **dict.fromkeys(("macintosh", "x-mac-roman"), "mac-roman"),
    **dict.fromkeys(("x-mac-cyrillic",), "mac-cyrillic"),
    **dict.fromkeys(("utf8", "unicode-1-1-utf-8", "x-unicode20utf8"), "utf-8"),
}
# What windows-1252 has in place of latin-1's second control characters; browsers keep those that it leaves open.
_WINDOWS_1252 = {byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(0x80, 0xA0)}


def decode(body: bytes, header: str | None) -> str:
    """The text of `body`: by its BOM, the `header`'s charset, a meta element, else UTF-8, else windows-1252."""
    encoding, start = _encoding(body, header)
    if encoding == "cp1252":
        return body.decode("latin-1").translate(_WINDOWS_1252)
    return body[start:].decode(encoding, "replace")


def to_utf8(body: bytes, header: str | None) -> bytes:
    """The text of `body` in UTF-8; most pages are in it already.

    Bytes that are none in a page of UTF-8 stay: what is read from lexbor has U+FFFD in their place.
    """
    encoding, start = _encoding(body, header)
    return body[start:] if encoding == "utf-8" else decode(body, header).encode()


def _encoding(body: bytes, header: str | None) -> tuple[str, int]:
    """Python's codec for `body`, and where its text begins after a BOM."""
    if body.startswith(_BOM_BYTES):
        return next((encoding, len(bom)) for bom, encoding in _BOMS if body.startswith(bom))
    encoding = _codec(header) or _declared(body[:_PRESCAN])
    return encoding or ("utf-8" if _is_utf8(body) else "cp1252"), 0


def _is_utf8(body: bytes) -> bool:
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _declared(start: bytes) -> str | None:
    for match in _META.finditer(start):
        if match.group(1) and (charset := _META_CHARSET.search(match.group(1))):
            encoding = _codec(charset.group(1).decode("latin-1"))
            # bytes that could be read so far are no UTF-16, whatever they say
            return "utf-8" if encoding and encoding.startswith("utf-16") else encoding
    return None


@lru_cache(maxsize=256)
def _codec(label: str | None) -> str | None:
    """Python's codec for the `label` of an encoding; None for what is no text encoding."""
    if not label:
        return None
    label = label.strip().lower()
    try:
        codec = codecs.lookup(_LABELS.get(label, label))
    except LookupError:
        return None
    return codec.name if codec._is_text_encoding and codec.name not in ("utf-7", "idna", "punycode") else None
