"""Freshness of cached pages by their header lines (RFC 9111)."""

from __future__ import annotations

import re
from datetime import timedelta

from pipelines.fetch.page import Page, parse_http_date

_CACHEABLE = frozenset((200, 203, 204, 300, 301, 308, 404, 405, 410, 414))
_DIRECTIVE = re.compile(r'([a-z-]+)(?:\s*=\s*"?([^",\s]*)"?)?')
_MAX_SECONDS = 10 * 365 * 86400


def is_shareable(page: Page) -> bool:
    """Return whether later executions may use the answer: complete, of a cacheable status, and without no-store."""
    is_cacheable = page.error is None and page.status in _CACHEABLE
    return is_cacheable and ("no-store" not in _lower_head(page) or "no-store" not in _parse_directives(page))


def get_lifetime(page: Page, default: timedelta) -> timedelta:
    """Return how long after its arrival the answer is fresh; `default` without caching headers."""
    head = _lower_head(page)
    if "cache-control:" not in head and "expires:" not in head and "pragma:" not in head:  # most say nothing
        return default
    directives = _parse_directives(page)
    if "no-cache" in directives or "no-store" in directives:
        return timedelta()
    if (seconds := _parse_seconds(directives.get("max-age"))) is not None:
        return timedelta(seconds=max(0, seconds - (_parse_seconds(page.header("age")) or 0)))
    if (expires := page.header("expires")) is not None:
        return _get_time_left(expires, page)
    return default if directives or "no-cache" not in (page.header("pragma") or "") else timedelta()


def _lower_head(page: Page) -> str:
    """Return the header lines in lower case, as text: searching bytes is far slower."""
    return page.head.decode("latin-1").lower()


def _parse_directives(page: Page) -> dict[str, str]:
    lines = page.headers("cache-control")
    if not lines:
        return {}
    text = ",".join(lines).lower()
    return {match[1]: match[2] or "" for match in _DIRECTIVE.finditer(text)}


def _parse_seconds(text: str | None) -> int | None:
    """Return a number of seconds; None for anything else."""
    text = (text or "").strip()
    return min(int(text[:12]), _MAX_SECONDS) if text.isascii() and text.isdigit() else None


def _get_time_left(expires: str, page: Page) -> timedelta:
    at = parse_http_date(expires)
    if at is None:  # such as 0, which has passed (section 5.3)
        return timedelta()
    return max(timedelta(), at - (parse_http_date(page.header("date") or "") or page.fetched_at))
