"""What went wrong in the browser: a sentence for the row, and whether another try may help."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Cookie, Error

_CODE = re.compile(r"net::(ERR_[A-Z0-9_]+)")

# What Chromium calls a failure (net/base/net_error_list.h), by what it begins with; the first that matches is told.
_SENTENCES: tuple[tuple[str, str], ...] = (
    ("ERR_ABORTED", "no page came: the server answered without one, or with a download"),
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
# a tab whose process dies while it goes somewhere is told as aborted
_PASSING = (
    "ERR_ABORTED",
    "ERR_EMPTY_RESPONSE",
    "ERR_CONNECTION_",
    "ERR_INCOMPLETE_CHUNKED_ENCODING",
    "ERR_CONTENT_LENGTH_MISMATCH",
)

STOPPED = ("ERR_SOCKS_CONNECTION_", "ERR_ADDRESS_UNREACHABLE")  # the gate, or the filter, knows why


class VisitFailed(Exception):
    """There is no page; the message is a sentence. `passing` when another try may bring one, `status` what the server
    answered where it did.
    """

    def __init__(self, sentence: str, passing: bool = False) -> None:
        super().__init__(sentence)
        self.passing = passing
        self.status: int | None = None


class Redirected(Exception):
    """The server sends elsewhere, which is an address to ask leave for; `cookies` are what it set on the way."""

    def __init__(self, address: str, cookies: Sequence[Cookie], seconds: float) -> None:
        super().__init__(address)
        self.address = address
        self.cookies = cookies
        self.seconds = seconds


class Crashed(Exception):
    """The tab or the whole browser died under a visit."""


def first_line(error: Exception) -> str:
    """What Playwright says, which may hold what a page's script has thrown: as text that every encoding takes."""
    line = next(iter(str(error)[:3000].splitlines()), "")[:300]
    return line.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def gone(error: Error) -> bool:
    """Whether what was to act is no longer there: the page, the browser, or the driver between."""
    return "has been closed" in error.message


def net_error(message: str) -> str | None:
    """Chromium's code in Playwright's message."""
    found = _CODE.search(message)
    return found[1] if found else None


def failed(code: str, host: str) -> VisitFailed:
    template = next((sentence for start, sentence in _SENTENCES if code.startswith(start)), None)
    sentence = template.format(host=host) if template else f"the browser could not open {host} ({code})"
    return VisitFailed(sentence, code.startswith(_PASSING))
