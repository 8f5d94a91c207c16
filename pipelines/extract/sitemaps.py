"""Sitemaps: the addresses of a file of the protocol, of a feed, or of a text with an address in every line."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pipelines.extract.casts import parse_mail_date
from pipelines.extract.document import Document, TreeElement
from pipelines.fetch.page import Page, decode_utf8
from pipelines.fetch.urls import canonical_url

_log = logging.getLogger(__name__)
_ROBOTS_LINE = re.compile(r"(?i)[ \t]*sitemap[ \t]*:[ \t]*(\S+)")
_HTML = re.compile(rb"(?i)(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?<(?:!doctype\s+)?html\b")
_FEED_TIMES = ("updated", "pubdate", "date", "published")
_SECONDS = re.compile(r"\d\d:\d\d:\d\d|T\d{6}")


class UnreadableSitemap(Exception):
    """The page is no sitemap, or one without an address."""


class Entry(NamedTuple):
    """An address of a sitemap, with the time of its last change as the sitemap has it."""

    url: str
    changed: str | None = None
    is_sitemap: bool = False


def read_entries(page: Page) -> list[Entry]:
    """Return the addresses of a sitemap in their order; raise UnreadableSitemap without any."""
    if not page.ok:
        raise UnreadableSitemap(page.error or f"the server answered {page.status}")
    if _HTML.match(page.body):
        raise UnreadableSitemap("it is a page in HTML, not a sitemap")
    try:
        document = Document(page, "xml")
    except Exception as failure:  # any fault fails only this sitemap
        raise UnreadableSitemap(str(failure)) from failure
    root = document.root
    if document.repaired:
        _log.warning("the sitemap %s was repaired: %s", page.requested_url, document.repaired)
    if isinstance(root, TreeElement):
        entries = [*_iter_entries(root.tree, page.url)]
    elif root.text().startswith(("http://", "https://")):
        found = (canonical_url(each) for each in document.text.split())
        entries = [Entry(url) for url in found if url]
    else:
        raise UnreadableSitemap("it is neither XML nor a list of addresses")
    if not entries:
        raise UnreadableSitemap("it has no address")
    return entries


def read_robots_lines(robots: Page) -> list[str]:
    """Return the sitemaps that a robots.txt names."""
    lines = map(_ROBOTS_LINE.match, decode_utf8(robots.body).splitlines() if robots.ok else ())
    found = (canonical_url(line[1], robots.url) for line in lines if line)
    return [*dict.fromkeys(url for url in found if url)]


def parse_time(text: str) -> datetime | None:
    """Return the beginning of a time of W3C's format, like 2026-01 or 2026-01-31T12:00Z; None if it is malformed."""
    text = text.strip()
    text += {4: "-01-01", 7: "-01"}.get(len(text), "")
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def parse_end(text: str) -> datetime | None:
    """Return the end of what a time says: 2026-05 ends with May."""
    text, begin = text.strip(), parse_time(text)
    try:
        match len(text):
            case _ if begin is None:
                return None
            case 4:
                return begin.replace(year=begin.year + 1)
            case 7:
                return (begin + timedelta(days=31)).replace(day=1)
            case 8 | 10:
                return begin + timedelta(days=1)
            case _:
                return begin + timedelta(seconds=1 if _SECONDS.search(text) else 60)
    except (OverflowError, ValueError):  # the year 9999
        return None


def _iter_entries(root: Any, base: str) -> Iterator[Entry]:
    """Yield the entries below the root of a sitemap, an index, or a feed; raise UnreadableSitemap for other XML.

    Names are compared without their namespace, whose prefix and spelling differ from site to site.
    """
    match _get_name(root):
        case "urlset" | "sitemapindex":
            for each in root.iterchildren("*"):
                if (name := _get_name(each)) in ("url", "sitemap"):
                    texts = _read_children(each)
                    location, changed = texts.get("loc"), texts.get("lastmod")
                    if location and (url := canonical_url(location, base)):
                        yield Entry(url, changed, name == "sitemap")
        case "rss" | "rdf" | "feed":
            for each in root.iter("*"):
                if _get_name(each) in ("item", "entry"):
                    location, texts = _find_link(each), _read_children(each)
                    changed = next((texts[name] for name in _FEED_TIMES if name in texts), None)
                    if location and (url := canonical_url(location, canonical_url(each.base or "", base))):
                        yield Entry(url, _to_iso(changed))
        case name:
            raise UnreadableSitemap(f"it is XML with the root <{name[:50]}>, not a sitemap")


def _find_link(item: Any) -> str | None:
    """Return the address of an item of RSS or an entry of Atom, whose links to other things have another `rel`."""
    permanent = None
    for each in item.iterchildren("*"):
        match _get_name(each):
            case "link" if each.get("rel", "alternate") == "alternate":
                if location := (each.get("href") or _get_text(each)).strip():
                    return location
            case "guid" if each.get("isPermaLink") != "false" and _get_text(each).startswith(("http://", "https://")):
                permanent = _get_text(each)
            case _:
                pass
    return permanent


def _to_iso(changed: str | None) -> str | None:
    """Return the time of a mail header, as RSS has it, in W3C's format; other texts unchanged."""
    time = parse_mail_date(changed) if changed and parse_time(changed) is None else None
    return time.isoformat() if time else changed


def _read_children(element: Any) -> dict[str, str]:
    """Return the first text of every name among the children."""
    texts = dict[str, str]()
    for each in element.iterchildren("*"):
        if text := _get_text(each):
            texts.setdefault(_get_name(each), text)
    return texts


def _get_text(element: Any) -> str:
    from pipelines.extract.trees import get_xml_text

    return get_xml_text(element)


def _get_name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2].lower()
