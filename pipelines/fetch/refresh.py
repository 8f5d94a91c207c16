"""Declarative refresh (HTML standard): the address that a page leads its readers on to, by a header or in a meta."""

from __future__ import annotations

import re
from html import unescape

from pipelines.fetch.page import Page
from pipelines.fetch.urls import absolute_url, canonical_url, decode_address

_MAX_SECONDS = 10  # a page that is shown for longer is there to be read
_BEGINNING = 64 * 1024  # bytes, in which a meta element is looked for
_HTML_TYPES = (None, "text/html", "application/xhtml+xml")
# Text that is no element, up to the end of the page if it is not closed; noscript is for readers without scripts.
_NO_ELEMENTS = re.compile(
    rb"(?is)<!--.*?(?:-->|\Z)"
    rb"|<(script|noscript|style|template|textarea|title|xmp|iframe|noembed|noframes)\b.*?(?:</\1\b|\Z)"
)
_TAG = re.compile(rb"(?i)<(meta|base)(?=[\s/])((?:[^>\"']|\"[^\"]*+\"|'[^']*+')*+)(?:>|\Z)")
_ATTRIBUTE = re.compile(rb"([^\s=/>\"']++)\s*+(?:=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s>]++)))?+")
_REFRESH = re.compile(r"(?s)\s*+(\d++|(?=\.))[\d.]*+(?:\s*+\Z|(?=[;,\s])\s*+[;,]?+\s*+(.*))")
_URL = re.compile(r"(?is)url\s*+=\s*+(.*)")


def find_refresh(page: Page) -> str | None:
    """Return the canonical address that a page refreshes to within ten seconds; None without one."""
    header = page.header("refresh")
    base, content = (page.url, header) if header else _find_meta(page)
    if not content:
        return None
    found = parse_refresh(content)
    if found is None or found[0] > _MAX_SECONDS or not found[1]:
        return None
    return canonical_url(found[1], base)


def parse_refresh(content: str) -> tuple[int, str] | None:
    """Return the seconds and the address of a refresh, an empty one for the page itself; None if it is malformed."""
    found = _REFRESH.match(content)
    if not found:
        return None
    seconds, rest = int(found[1][:9] or 0), found[2] or ""
    if named := _URL.match(rest):
        rest = named[1]
    if rest[:1] in ("'", '"'):
        rest = rest[1:].partition(rest[0])[0]
    return seconds, rest.strip()


def _find_meta(page: Page) -> tuple[str, str | None]:
    """Return the base of the page's addresses and the content of its first meta element for a refresh."""
    start = page.body[:_BEGINNING]
    if page.content_type not in _HTML_TYPES or not (b"-equiv" in start or b"-EQUIV" in start or b"-Equiv" in start):
        return page.url, None
    base, content = None, None
    for tag in _TAG.finditer(_NO_ELEMENTS.sub(b"", start)):
        named = dict[str, str]()
        for name, *values in _ATTRIBUTE.findall(tag[2]):
            named.setdefault(name.decode("latin-1").lower(), unescape(decode_address(b"".join(values))))
        if tag[1].lower() == b"base":
            base = base or named.get("href")
        elif named.get("http-equiv", "").strip().lower() == "refresh" and parse_refresh(named.get("content", "")):
            content = content or named["content"]
    return (absolute_url(base, page.url) if base else None) or page.url, content
