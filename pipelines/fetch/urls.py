"""URLs as browsers parse them (WHATWG URL Standard)."""

from __future__ import annotations

from ada_url import join_url, normalize_url

_WEB = ("http://", "https://")


def absolute_url(url: str, base: str | None = None) -> str | None:
    """`url` resolved against `base`, any scheme, its fragment kept; None when it does not parse."""
    try:
        return join_url(base, url) if base else normalize_url(url)
    except ValueError:
        return None


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
