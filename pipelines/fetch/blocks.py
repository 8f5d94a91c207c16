"""Pages of bot protections: challenges, captchas, consent walls and denials in place of the page that was requested."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TypeVar

from pipelines.fetch.page import Page

PageT = TypeVar("PageT", bound=Page)

_HTML_TYPES = (None, "text/html", "application/xhtml+xml")
_TITLE = re.compile(rb"(?i)<title[^>]{0,200}>\s*([^<]{0,200})")
_TITLE_BYTES = 4096  # the beginning of a page, in which its title is
_SMALL_PAGE = 4096  # bytes; protections without a title of their own send no larger pages with status 200


@dataclass(frozen=True, slots=True)
class BlockMarker:
    """Common marks of the pages of a protection: the beginning of their title, and one of the `fragments`.

    With an empty title, any title will do in a small page or one with an error status.
    """

    protection: str
    title: bytes
    fragments: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class BlockSigns:
    """A pipeline's own signs of a blocked page: an element that a selector finds, or a text."""

    selector: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class LogoutSigns:
    """Signs of a page that is shown to someone who is not logged in.

    An element that a selector finds, or a regular expression in the address; without either, a field for a password.
    """

    selector: str | None = None
    address: str | None = None


# each has a page in tests/pipelines/fetch/blocked
MARKERS = (
    BlockMarker("Cloudflare", b"Just a moment...", (b"_cf_chl_opt", b"/cdn-cgi/challenge-platform/")),
    BlockMarker("Cloudflare", b"Attention Required! | Cloudflare", (b"cf-error-details",)),
    BlockMarker("Akamai", b"Access Denied", (b"errors.edgesuite.net", b"Reference&#32;&#35;")),
    BlockMarker("HUMAN", b"Access to this page has been denied", (b"px-captcha", b"_pxAppId")),
    BlockMarker("Imperva", b"Pardon Our Interruption", (b"something about your browser made us think",)),
    BlockMarker("Imperva", b"", (b"Incapsula incident ID",)),
    BlockMarker("DataDome", b"", (b".captcha-delivery.com/",)),
    BlockMarker("AWS WAF", b"Human Verification", (b".awswaf.com/", b"gokuProps")),
    BlockMarker("Sucuri", b"Sucuri WebSite Firewall - Access Denied", (b"sucuri.net",)),
    BlockMarker("DDoS-Guard", b"DDoS-Guard", (b"/.well-known/ddos-guard/",)),
    BlockMarker("Vercel", b"Vercel Security Checkpoint", (b"/.well-known/vercel/security/",)),
    BlockMarker("Amazon", b"Amazon.", (b"/errors/validateCaptcha",)),
    BlockMarker("Amazon", b"Robot Check", (b"/errors/validateCaptcha",)),
    BlockMarker("Google", b"Before you continue to ", (b"https://consent.google.", b"https://consent.youtube.")),
)
_TITLES = tuple(marker.title for marker in MARKERS if marker.title)
_UNTITLED = tuple(marker for marker in MARKERS if not marker.title)


def find_block(page: Page) -> str | None:
    """Return the name of the protection whose page this is."""
    if page.content_type not in _HTML_TYPES:
        return None
    body = page.body
    start = body.find(b"<title", 0, _TITLE_BYTES)
    start = start if start >= 0 else body.find(b"<TITLE", 0, _TITLE_BYTES)
    if start >= 0 and (found := _TITLE.match(body, start)):
        title = found[1]
        if title.startswith(_TITLES):
            for marker in MARKERS:
                if marker.title and title.startswith(marker.title) and _has_fragment(marker, body):
                    return marker.protection
    if len(body) < _SMALL_PAGE or (page.status or 0) >= 400:
        return next((marker.protection for marker in _UNTITLED if _has_fragment(marker, body)), None)
    return None


def mark_blocked(page: PageT) -> PageT:
    """Return `page`, with an error if it is that of a protection."""
    if page.error is None and (protection := find_block(page)):
        return replace(page, error=describe_block(protection))
    return page


def describe_block(protection: str) -> str:
    """Return the sentence for the page of a protection, or of `a site` that names its own."""
    return (
        f"blocked: {protection} answered with a check for people in place of the page; a longer spindle.delay, "
        "a spindle.userAgent with your contact or the site's permission may help"
    )


def describe_logout() -> str:
    """Return the sentence for a page that is shown to someone who is not logged in."""
    return "logged out: the site asks for a login in place of the page; record the login again with `spindle login`"


def describe_blocking_host(host: str, pages: int, blocked: int) -> str:
    """Return the sentence for a host that has blocked so many of its last pages."""
    return (
        f"{host} blocks requests: {blocked:,} of its last {pages:,} pages were checks for people; a longer "
        "spindle.delay, a spindle.userAgent with your contact or the site's permission may help"
    )


def _has_fragment(marker: BlockMarker, body: bytes) -> bool:
    return any(fragment in body for fragment in marker.fragments)
