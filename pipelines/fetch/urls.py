"""URLs as browsers parse them (WHATWG URL Standard)."""

from __future__ import annotations

from typing import Any

from ada_url import ada_adapter

_ada: Any = ada_adapter.lib  # pyright: ignore[reportPrivateImportUsage]
_ffi: Any = ada_adapter.ffi  # pyright: ignore[reportPrivateImportUsage]
_WEB = ("http://", "https://")


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
    absolute = absolute_url(url, base)
    if absolute is None or not absolute.startswith(_WEB):
        return None
    return absolute.partition("#")[0]


def origin(url: str) -> str:
    """Scheme, host and port of a canonical address."""
    end = url.find("/", 8)
    return url if end < 0 else url[:end]
