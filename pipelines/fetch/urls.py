"""URLs as browsers parse them (WHATWG URL Standard)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

from ada_url import ada_adapter

_ada: Any = ada_adapter.lib  # pyright: ignore[reportPrivateImportUsage]
_ffi: Any = ada_adapter.ffi  # pyright: ignore[reportPrivateImportUsage]
_WEB = ("http://", "https://")
SHORTEST_SECRET = 6  # what is shorter is no secret, and hiding it would garble what is told
_PLACES = (("http://h/", ""), ("http://h/?", ""), ("http://:", "@h/"))  # each escapes other characters
LONGEST_BASE = 2048  # characters, as sitemaps allow an address; what is longer is not remembered as a base
# a site, then a path and a query of characters that parsing leaves as they are; it takes out segments of dots
_PLAIN = re.compile(r"(https?://[^/@?]{1,300}+)/[a-zA-Z0-9_~!$&()*+,;=:@%./-]*+(?:\?[a-zA-Z0-9_~!$&()*+,;=:@%./?-]*+)?")


def absolute_url(url: str, base: str | None = None) -> str | None:
    """`url` resolved against `base`, any scheme, its fragment kept; None when it does not parse."""
    try:
        text = url.encode()
        start = base.encode() if base else b""
    except UnicodeEncodeError:
        return None
    # every link is parsed twice, and ada's own functions for it cost three times as much
    parsed = _ada.ada_parse_with_base(text, len(text), start, len(start)) if base else _ada.ada_parse(text, len(text))
    try:
        if not _ada.ada_is_valid(parsed):
            return None
        href = _ada.ada_get_href(parsed)
        return _ffi.unpack(href.data, href.length).decode()
    finally:
        _ada.ada_free(parsed)


def canonical_url(url: str, base: str | None = None) -> str | None:
    """The address that pages are told apart by: http or https, without fragment and default port, the query as it is.

    None when `url` does not resolve to such an address.
    """
    address = _joined(url, base) if base else url
    plain = _PLAIN.fullmatch(address)
    if plain and "/." not in address and "/%2" not in address and _is_canonical(plain[1]):  # parsing takes far longer
        return address
    absolute = absolute_url(url, base)
    if absolute is None or not absolute.startswith(_WEB):
        return None
    return absolute.partition("#")[0]


def _joined(url: str, base: str) -> str:
    """`url` behind what it is relative to; nothing where that is for a parser to say."""
    if url.startswith(_WEB):
        return url
    if ":" in url or url.startswith(("?", "#", "//")) or not url or len(base) > LONGEST_BASE:
        return ""
    site, folder = _place(base)
    return (site if url.startswith("/") else folder) + url


@lru_cache(maxsize=1024)
def _place(base: str) -> tuple[str, str]:
    """The site of an address, and its path as far as relative links follow it; nothing where that is for a parser."""
    plain = _PLAIN.fullmatch(base)
    if not plain or "/." in base or "/%2" in base:
        return "", ""
    return plain[1], base[: base.partition("?")[0].rindex("/") + 1]


def origin(url: str) -> str:
    """Scheme, host and port of a canonical address, without user info: that makes no other host of it."""
    scheme, _, rest = url.partition("//")
    return f"{scheme}//{rest.partition('/')[0].rpartition('@')[2]}"


@lru_cache(maxsize=1024)
def _is_canonical(site: str) -> bool:
    """Whether scheme, host and port are written as in a canonical address."""
    return absolute_url(f"{site}/") == f"{site}/"


def spellings(secret: str) -> frozenset[str]:
    """How `secret` may stand in an address: as it is, escaped as a whole, or as `canonical_url` escapes it in a path,
    in a query and as a password.
    """
    found = {secret, quote(secret, safe=""), quote_plus(secret)}
    for before, after in _PLACES:
        address = canonical_url(before + secret + after) or ""
        found.add(address.removeprefix(before).removesuffix(after))
    return frozenset(text for text in found if len(text) >= SHORTEST_SECRET)
