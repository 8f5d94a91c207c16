"""How long an answer may be used again (RFC 9111), by what its header lines say."""

from __future__ import annotations

import re
from datetime import timedelta

from pipelines.fetch.page import Page, parse_http_date

_LASTING = frozenset((200, 203, 204, 300, 301, 308, 404, 405, 410, 414))
_DIRECTIVE = re.compile(r'([a-z-]+)(?:\s*=\s*"?([^",\s]*)"?)?')
_LONGEST = 10 * 365 * 86400


def may_be_kept(page: Page) -> bool:
    """Whether a later run may have the answer: a lasting one, whole, whose server does not forbid it."""
    lasting = page.error is None and page.status in _LASTING
    return lasting and ("no-store" not in _lowered(page) or "no-store" not in _directives(page))


def lifetime(page: Page, default: timedelta) -> timedelta:
    """How long the answer may be trusted after it came; `default` where its server does not say."""
    head = _lowered(page)
    if "cache-control:" not in head and "expires:" not in head and "pragma:" not in head:  # most say nothing
        return default
    directives = _directives(page)
    if "no-cache" in directives or "no-store" in directives:
        return timedelta()
    if (seconds := _seconds(directives.get("max-age"))) is not None:
        return timedelta(seconds=max(0, seconds - (_seconds(page.header("age")) or 0)))
    if (expires := page.header("expires")) is not None:
        return _until(expires, page)
    return default if directives or "no-cache" not in (page.header("pragma") or "") else timedelta()


def _lowered(page: Page) -> str:
    """The header lines as text: bytes are searched far slower."""
    return page.head.decode("latin-1").lower()


def _directives(page: Page) -> dict[str, str]:
    lines = page.headers("cache-control")
    if not lines:
        return {}
    text = ",".join(lines).lower()
    return {match[1]: match[2] or "" for match in _DIRECTIVE.finditer(text)}


def _seconds(text: str | None) -> int | None:
    """None for what is no number of seconds."""
    text = (text or "").strip()
    return min(int(text[:12]), _LONGEST) if text.isascii() and text.isdigit() else None


def _until(expires: str, page: Page) -> timedelta:
    at = parse_http_date(expires)
    if at is None:  # such as 0, which has passed (section 5.3)
        return timedelta()
    return max(timedelta(), at - (parse_http_date(page.header("date") or "") or page.fetched_at))
