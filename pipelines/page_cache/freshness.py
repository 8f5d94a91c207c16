"""How long an answer may be used again (RFC 9111), by what its header lines say."""

from __future__ import annotations

import re
from datetime import timedelta

from pipelines.fetch.dates import http_date
from pipelines.fetch.page import Page

_LASTING = frozenset((200, 203, 204, 300, 301, 308, 404, 405, 410, 414))
_DIRECTIVE = re.compile(r'([a-z-]+)(?:\s*=\s*"?([^",\s]*)"?)?')
_LONGEST = 10 * 365 * 86400
_MOST_OLD = 64 * 1024  # bytes of header lines; by other names with each answer they would grow without end


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


def revalidated(kept: Page, answer: Page) -> Page:
    """The kept page after its server said that it has not changed (section 4.3.4).

    Of its header stays what the answer does not replace, as long as that is not too much.
    """
    lines = answer.head.splitlines(keepends=True)
    names = {_name(line) for line in lines}
    old = b"".join(line for line in kept.head.splitlines(keepends=True) if _name(line) not in names)
    head = answer.head + old if len(old) <= _MOST_OLD else answer.head
    fields = (kept.requested_url, kept.url, kept.status, None, kept.content_type, kept.charset, kept.body)
    return Page(*fields, answer.fetched_at, kept.redirects, head, answer.received)


def _lowered(page: Page) -> str:
    """The header lines as text: bytes are searched far slower."""
    return page.head.decode("latin-1").lower()


def _name(line: bytes) -> bytes:
    """What a header line is called; nothing for a status line."""
    name, separator, _ = line.partition(b":")
    return name.strip().lower() if separator else b""


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
    at = http_date(expires)
    if at is None:  # such as 0, which has passed (section 5.3)
        return timedelta()
    return max(timedelta(), at - (http_date(page.header("date") or "") or page.fetched_at))
