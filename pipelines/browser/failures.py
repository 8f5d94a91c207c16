"""Failures of visits: the sentence for the row, and whether a retry may help."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Error

_CODE = re.compile(r"net::(ERR_[A-Z0-9_]+)")

# sentences by prefixes of Chromium's codes (net/base/net_error_list.h); the first match counts
_SENTENCES: tuple[tuple[str, str], ...] = (
    ("ERR_ABORTED", "no page arrived: the server answered without one, or with a download"),
    ("ERR_TOO_MANY_REDIRECTS", "redirects too many times"),
    ("ERR_CERT_COMMON_NAME_INVALID", "the certificate of {host} is for another name"),
    ("ERR_CERT_DATE_INVALID", "the certificate of {host} has expired, or is not valid yet"),
    ("ERR_CERT_", "the certificate of {host} is not trusted"),
    ("ERR_SSL_", "could not agree on encryption with {host}"),
    ("ERR_EMPTY_RESPONSE", "{host} closed the connection without an answer"),
    ("ERR_CONNECTION_", "the connection to {host} broke"),
    ("ERR_SOCKS_CONNECTION_", "could not connect to {host}"),
    ("ERR_NAME_NOT_RESOLVED", "could not find the host {host}"),
    ("ERR_CONTENT_DECODING_FAILED", "the page cannot be decompressed"),
    ("ERR_INCOMPLETE_CHUNKED_ENCODING", "{host} closed the connection before the end of the page"),
    ("ERR_CONTENT_LENGTH_MISMATCH", "{host} closed the connection before the end of the page"),
    ("ERR_INVALID_HTTP_RESPONSE", "{host} does not speak HTTP"),
    ("ERR_UNSAFE_PORT", "browsers open no pages on that port"),
    ("ERR_UNSAFE_REDIRECT", "redirects to what is neither http nor https"),
    ("ERR_UNKNOWN_URL_SCHEME", "redirects to what is neither http nor https"),
)
# ERR_ABORTED is also the code of a navigation whose process dies
_RETRYABLE = (
    "ERR_ABORTED",
    "ERR_EMPTY_RESPONSE",
    "ERR_CONNECTION_",
    "ERR_INCOMPLETE_CHUNKED_ENCODING",
    "ERR_CONTENT_LENGTH_MISMATCH",
)

GUARD_CODES = ("ERR_SOCKS_CONNECTION_", "ERR_ADDRESS_UNREACHABLE")  # the proxy or the filter has the reason


class VisitFailed(Exception):
    """A visit without a page: a sentence, whether a retry may help, and the status of the server's answer, if any."""

    def __init__(self, sentence: str, retryable: bool = False) -> None:
        super().__init__(sentence)
        self.retryable = retryable
        self.status: int | None = None


class VisitRedirected(Exception):
    """A redirect that the request queue must admit before it is followed, with the cookies set so far."""

    def __init__(self, address: str, cookies: Sequence[str], seconds: float) -> None:
        super().__init__(address)
        self.address = address
        self.cookies = cookies
        self.seconds = seconds


class BrowserCrashed(Exception):
    """The tab or the whole browser crashed during a visit."""


def format_error(error: Exception) -> str:
    """Return the first line of Playwright's message without lone surrogates, which a page's script may have thrown."""
    line = next(iter(str(error)[:3000].splitlines()), "")[:300]
    return line.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def is_closed(error: Error) -> bool:
    """Return whether the page, the browser or Playwright's driver has been closed."""
    return "has been closed" in error.message


def parse_net_error(message: str) -> str | None:
    """Return Chromium's code in Playwright's message."""
    found = _CODE.search(message)
    return found[1] if found else None


def create_failure(code: str, host: str) -> VisitFailed:
    """Translate Chromium's code."""
    template = next((sentence for start, sentence in _SENTENCES if code.startswith(start)), None)
    sentence = template.format(host=host) if template else f"the browser could not open {host} ({code})"
    return VisitFailed(sentence, code.startswith(_RETRYABLE))
