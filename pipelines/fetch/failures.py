"""Failed fetches: the sentence for the row's `_error`, the reason as a code, and whether a retry may help."""

from __future__ import annotations

import re
from enum import StrEnum

import pycurl

from pipelines.fetch.fetcher import FetchOptions
from pipelines.fetch.urls import origin
from pipelines.http_client.failures import PROXY

UNDECODABLE = "the page cannot be decompressed"
UNEXPECTED_NOT_MODIFIED = "the server answered 304 (not modified) to a request without conditions"


class FailureReason(StrEnum):
    """The kinds of failed pages."""

    STATUS = "http-status"
    BLOCKED = "blocked"
    LOGGED_OUT = "logged-out"
    ROBOTS = "robots"
    REFUSED = "refused"
    ADDRESS = "invalid-address"
    REDIRECT = "redirect"
    TIMEOUT = "timeout"
    HOST = "unknown-host"
    CERTIFICATE = "certificate"
    TOO_LARGE = "too-large"
    UNREADABLE = "unreadable"
    ACTION = "action"
    FILE = "file"
    UNREAD = "unread"
    NOT_STORED = "not-stored"
    CONNECTION = "connection"
    OTHER = "other"


# the first pattern that a sentence begins with; sentences of fetchers, the throttle, the parser and the browser
_REASONS = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"blocked:", FailureReason.BLOCKED),
        (r"logged out:", FailureReason.LOGGED_OUT),
        (r"it is not among the (recorded|stored) pages", FailureReason.NOT_STORED),
        (r"the server answered \d+", FailureReason.STATUS),
        (r"refused:|redirects to \S+ refused:", FailureReason.REFUSED),
        (r".*\bforbids this address to |robots\.txt (could not be read|has more) ", FailureReason.ROBOTS),
        (r"redirects |\S+ redirects ", FailureReason.REDIRECT),
        (r"timed out |\S+ (did not answer within|stopped sending) ", FailureReason.TIMEOUT),
        (r"could not connect to \S+ within |the site asks to be left alone ", FailureReason.TIMEOUT),
        (r"could not find the host ", FailureReason.HOST),
        (r"the certificate of |could not agree on encryption ", FailureReason.CERTIFICATE),
        (r"the page\b.* is larger than |the header of the answer of ", FailureReason.TOO_LARGE),
        (r"the page (cannot be decompressed|could not be read)", FailureReason.UNREADABLE),
        (r"the files? (cannot be stored|of this run)", FailureReason.FILE),
        (
            r"action \d+|(no|too little) JSON came from |the (frame has|element that|consent notice|script of) ",
            FailureReason.ACTION,
        ),
        (r"'.*' is not an http or https address", FailureReason.ADDRESS),
        (r"could not (connect|fetch)|no proxy could connect|the connection to ", FailureReason.CONNECTION),
        (r"\S+ (closed the connection|does not speak HTTP)", FailureReason.CONNECTION),
    )
)


def find_reason(status: int | None, sentence: str) -> FailureReason:
    """Return the reason of a failed page from the server's status and the sentence of its failure."""
    found = next((reason for pattern, reason in _REASONS if pattern.match(sentence)), None)
    if found is None:
        return FailureReason.STATUS if status is not None and status >= 400 else FailureReason.OTHER
    return found


def is_of_proxy(code: int, detail: str) -> bool:
    """Return whether libcurl's error `code` with its message `detail` is that of a proxy, for a request through one."""
    return code in (pycurl.E_COULDNT_RESOLVE_PROXY, pycurl.E_COULDNT_CONNECT, PROXY) or "CONNECT" in detail


def describe_missing_answer(where: str, options: FetchOptions) -> str:
    return (
        f"{where} did not answer within {options.first_byte_timeout:g} s; 'spindle: {{timeout: SECONDS}}' waits longer"
    )


def describe_bad_redirect(target: str | None, where: str) -> str:
    """Return the sentence for a redirect to `target`, None when that is no URL."""
    reason = "something that is not a URL" if target is None else "a URL that is neither http nor https"
    return f"{where} redirects to {reason}"


def describe_foreign_redirect(where: str, target: str) -> str:
    """Return the sentence for a redirect that asks to send a body to another site."""
    return f"{where} redirects the request with its body to another site, {origin(target)}"


def describe_too_many_redirects(options: FetchOptions, sets_cookies: bool = False) -> str:
    hint = "; it sets cookies, and 'spindle: {session: true}' sends those of all pages"
    return f"redirects more than {options.max_redirects} times{hint if sets_cookies and not options.session else ''}"


def describe_too_large(options: FetchOptions) -> str:
    return f"the page is larger than {options.max_body:,} bytes"
