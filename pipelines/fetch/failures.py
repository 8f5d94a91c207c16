"""Failed fetches: the sentence for the row's `_error`, the reason as a code, and whether a retry may help."""

from __future__ import annotations

import re
from enum import StrEnum

import pycurl

from pipelines.fetch.fetcher import FetchOptions
from pipelines.fetch.urls import origin

# CURLE_HTTP2_STREAM, CURLE_PROXY and CURLE_TOO_LARGE, which pycurl does not name
_HTTP2_STREAM = 92
_PROXY = 97
_HEADER_TOO_LARGE = 100

# A retry may help: the connection failed or broke.
_RETRYABLE_ERRORS = frozenset(
    (
        pycurl.E_COULDNT_RESOLVE_HOST,
        pycurl.E_COULDNT_RESOLVE_PROXY,
        _PROXY,
        pycurl.E_COULDNT_CONNECT,
        pycurl.E_SEND_ERROR,
        pycurl.E_RECV_ERROR,
        pycurl.E_GOT_NOTHING,
        pycurl.E_PARTIAL_FILE,
        pycurl.E_HTTP2,
        _HTTP2_STREAM,
    )
)

UNDECODABLE = "the page cannot be decompressed"
UNEXPECTED_NOT_MODIFIED = "the server answered 304 (not modified) to a request without conditions"
_SENTENCES = {
    pycurl.E_UNSUPPORTED_PROTOCOL: "{where} does not speak HTTP",
    pycurl.E_COULDNT_RESOLVE_HOST: "could not find the host {host}",
    pycurl.E_COULDNT_CONNECT: "could not connect to {where}",
    pycurl.E_FTP_WEIRD_SERVER_REPLY: "{where} does not speak HTTP",
    pycurl.E_PARTIAL_FILE: "{where} closed the connection before the end of the page",
    pycurl.E_GOT_NOTHING: "{where} closed the connection without an answer",
    pycurl.E_SEND_ERROR: "the connection to {where} broke",
    pycurl.E_RECV_ERROR: "the connection to {where} broke",
    pycurl.E_HTTP2: "the connection to {where} broke",
    _HTTP2_STREAM: "the connection to {where} broke",
    _HEADER_TOO_LARGE: "the header of the answer of {where} is too large",
    pycurl.E_BAD_CONTENT_ENCODING: UNDECODABLE,
    pycurl.E_PEER_FAILED_VERIFICATION: "the certificate of {host} is not trusted",
    pycurl.E_SSL_CONNECT_ERROR: "could not agree on encryption with {where}",
}


class FailureReason(StrEnum):
    """The kinds of failed pages."""

    STATUS = "http-status"
    BLOCKED = "blocked"
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
    CONNECTION = "connection"
    OTHER = "other"


# the first pattern that a sentence begins with; sentences of fetchers, the throttle, the parser and the browser
_REASONS = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"blocked:", FailureReason.BLOCKED),
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
        (r"action \d+", FailureReason.ACTION),
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


def describe_curl_error(code: int, detail: str, where: str, options: FetchOptions) -> str:
    """Return the sentence for libcurl's error `code` with its message `detail`; `where` is host:port."""
    host = where.rpartition(":")[0]
    by_proxy = code in (pycurl.E_COULDNT_RESOLVE_PROXY, pycurl.E_COULDNT_CONNECT, _PROXY) or "CONNECT" in detail
    if options.proxies and by_proxy:
        return f"no proxy could connect to {where}"
    if code == pycurl.E_OPERATION_TIMEDOUT:
        if detail.startswith(("Connection", "Resolving", "SSL", "Failed")):
            return f"could not connect to {where} within {options.connect_timeout:g} s"
        if detail.startswith("Operation too slow"):
            return f"{where} stopped sending for {options.first_byte_timeout:g} s"
        return f"timed out after {options.total_timeout:g} s"
    if code == pycurl.E_PEER_FAILED_VERIFICATION and "subject name" in detail:
        return f"the certificate of {host} is for another name"
    template = _SENTENCES.get(code, "could not fetch from {where} (libcurl error {code})")
    return template.format(where=where, host=host, code=code)


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


def is_retryable_error(code: int) -> bool:
    return code in _RETRYABLE_ERRORS
