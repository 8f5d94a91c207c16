"""URLs as browsers parse them (WHATWG URL Standard)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

from ada_url import ada_adapter

_ada: Any = ada_adapter.lib  # pyright: ignore[reportPrivateImportUsage]
_ffi: Any = ada_adapter.ffi  # pyright: ignore[reportPrivateImportUsage]
_OTHER_SCHEME = re.compile(r"(?i)\s*(?!https?:)[a-z][a-z0-9+.-]*:")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_QUERY_CHARACTERS = "!$%&()*+,-./:;=?@[\\]^_`{|}~"  # that are not escaped in a query
_WEB = ("http://", "https://")
MASK = "********"
_PASSWORD = re.compile(r"(//[^/?#@:]*:)[^/?#@]+(?=@)")
MIN_SECRET_LENGTH = 6  # to redact shorter texts would garble messages
_HIGH_BYTES = re.compile(rb"[\x80-\xff]")
_CONTEXTS = (("http://h/", ""), ("http://h/?", ""), ("http://:", "@h/"))  # which escape different characters
MAX_BASE_LENGTH = 2048  # characters, the limit of sitemaps; longer URLs do not serve as a base
# an origin, and a path and query of characters that parsing does not change; it removes segments of dots
_PLAIN = re.compile(r"(https?://[^/@?]{1,300}+)/[a-zA-Z0-9_~!$&()*+,;=:@%./-]*+(?:\?[a-zA-Z0-9_~!$&()*+,;=:@%./?-]*+)?")


def absolute_url(url: str, base: str | None = None) -> str | None:
    """Resolve `url` against `base`, in any scheme and with its fragment; return None if it does not parse."""
    try:
        text = url.encode()
        start = base.encode() if base else b""
    except UnicodeEncodeError:
        return None
    # called twice for every link; ada_url's Python functions are three times slower
    parsed = _ada.ada_parse_with_base(text, len(text), start, len(start)) if base else _ada.ada_parse(text, len(text))
    try:
        if not _ada.ada_is_valid(parsed):
            return None
        href = _ada.ada_get_href(parsed)
        return _ffi.unpack(href.data, href.length).decode()
    finally:
        _ada.ada_free(parsed)


def canonical_url(url: str, base: str | None = None) -> str | None:
    """Return the URL that identifies a page: http or https, without fragment and default port, the query unchanged.

    Return None if `url` does not resolve to http or https.
    """
    address = _join_simple(url, base) if base else url
    plain = _PLAIN.fullmatch(address)
    if plain and "/." not in address and "/%2" not in address and _is_canonical(plain[1]):  # much faster than parsing
        return address
    absolute = absolute_url(url, base)
    if absolute is None or not absolute.startswith(_WEB):
        return None
    return absolute.partition("#")[0]


def escape_query(url: str, codec: str) -> str:
    """Escape the characters beyond ASCII in the query of a URL of http or https in an encoding (WHATWG URL, 1.3).

    A character that the encoding does not have becomes a numeric reference, as in forms.
    """
    if codec.startswith(("utf-8", "utf-16")) or _OTHER_SCHEME.match(url):
        return url
    address, number, fragment = url.partition("#")
    before, mark, query = address.partition("?")
    query = _NOT_ASCII.sub(lambda found: "".join(_escape(each, codec) for each in found[0]), query)
    return f"{before}{mark}{query}{number}{fragment}"


def _escape(character: str, codec: str) -> str:
    try:
        encoded = character.encode(codec)
    except UnicodeEncodeError:
        return f"%26%23{ord(character)}%3B"
    return quote(encoded, safe=_QUERY_CHARACTERS)


def _join_simple(url: str, base: str) -> str:
    """Join `url` to `base` if that needs no parser, else return an empty text."""
    if url.startswith(_WEB):
        return url
    if ":" in url or url.startswith(("?", "#", "//")) or not url or len(base) > MAX_BASE_LENGTH:
        return ""
    site, folder = _split_base(base)
    return (site if url.startswith("/") else folder) + url


@lru_cache(maxsize=1024)
def _split_base(base: str) -> tuple[str, str]:
    """Return the origin and the folder of a base URL, empty texts if that needs a parser."""
    plain = _PLAIN.fullmatch(base)
    if not plain or "/." in base or "/%2" in base:
        return "", ""
    return plain[1], base[: base.partition("?")[0].rindex("/") + 1]


def decode_address(text: bytes) -> str:
    """Decode UTF-8; percent-encode the bytes of other encodings, which servers send unescaped."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return _HIGH_BYTES.sub(lambda byte: b"%%%02X" % byte[0][0], text).decode()


def origin(url: str) -> str:
    """Return scheme, host and port of a canonical URL, without user info."""
    scheme, _, rest = url.partition("//")
    return f"{scheme}//{rest.partition('/')[0].rpartition('@')[2]}"


def get_host(url: str) -> str:
    """Return host and port of a canonical URL; the port is left out where it is the default of the scheme."""
    return origin(url).partition("//")[2]


@lru_cache(maxsize=1024)
def _is_canonical(site: str) -> bool:
    """Return whether scheme, host and port are in canonical form."""
    return absolute_url(f"{site}/") == f"{site}/"


def spellings(secret: str) -> frozenset[str]:
    """Return the forms of `secret` in URLs: unchanged, escaped as a whole, or as in a path, a query or a password."""
    found = {secret, quote(secret, safe=""), quote_plus(secret)}
    for before, after in _CONTEXTS:
        address = canonical_url(before + secret + after) or ""
        found.add(address.removeprefix(before).removesuffix(after))
    return frozenset(text for text in found if len(text) >= MIN_SECRET_LENGTH)


def list_spellings(secrets: Iterable[str]) -> tuple[str, ...]:
    """Return the forms of all secrets, the longest first, for `mask_secrets`."""
    return tuple(sorted({each for secret in secrets for each in spellings(secret)}, key=len, reverse=True))


def mask_password(url: str) -> str:
    """Replace the password in an address by asterisks."""
    return _PASSWORD.sub(rf"\1{MASK}", url)


def mask_secrets(text: str, forms: Iterable[str]) -> str:
    """Replace the forms of secrets in a text by asterisks."""
    for form in forms:
        text = text.replace(form, MASK)
    return text
