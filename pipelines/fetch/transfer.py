"""One request on one libcurl handle: what is set, what is collected, and the page that comes of it."""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections import deque
from datetime import datetime
from typing import Any

import certifi
import pycurl
from ada_url import URL

from pipelines.fetch import content_encoding as codings
from pipelines.fetch import failures
from pipelines.fetch.fetcher import FetchOptions
from pipelines.fetch.guard import Guard, GuardRefused
from pipelines.fetch.page import Page, parse_content_type, parse_retry_after
from pipelines.fetch.request import Request
from pipelines.fetch.urls import absolute_url, canonical_url

_HEADER = [
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    f"Accept-Encoding: {codings.ACCEPTED}",  # libcurl is not told, and leaves what comes as it is
]
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_SUCCESSES = range(200, 300)
_READ = 64 * 1024  # bytes at a time; with libcurl's own 16 KiB most pages took several
_SLOWEST = 32  # bytes a second; a page that comes slower than this for first_byte_timeout is given up
_MOST_TYPE = 1024  # bytes of a Content-Type that are read
_LOCATION = re.compile(rb"(?im)^location:[ \t]*([^\s][^\r\n]*)")
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_RETRY_AFTER = re.compile(rb"(?im)^retry-after:[ \t]*([^\r\n]*)")


class Transfer:
    """A libcurl handle with what one request of it collects; used for one request after another."""

    __slots__ = (
        "_astray",
        "_conditional",
        "_guard",
        "_hurried",
        "_interrupted",
        "_lines",
        "_options",
        "_over",
        "_parts",
        "_refused",
        "_size",
        "_started",
        "came",
        "curl",
        "failure",
        "finished",
        "given_up",
        "request",
        "status",
    )

    request: Request[Any]
    came: bool  # it brought a page, as most do: nothing else can come of the request
    finished: deque[Transfer]
    failure: int | None
    given_up: bool  # before libcurl was done with it
    status: int

    def __init__(self, options: FetchOptions, guard: Guard) -> None:
        self._options = options
        self._guard = guard
        self._lines: list[bytes] = []
        self._parts: list[bytes] = []
        self._conditional = False
        self._hurried = False
        self.curl = _handle(options)
        self.curl.setopt(pycurl.WRITEFUNCTION, self._add)
        self.curl.setopt(pycurl.HEADERFUNCTION, self._lines.append)
        self.curl.setopt(pycurl.OPENSOCKETFUNCTION, self._open_socket)

    def prepare(self, request: Request[Any], finished: deque[Transfer]) -> None:
        """Makes ready for `request`; once over, the transfer puts itself into `finished`."""
        self.request = request
        self.finished = finished
        self.came = False
        self.failure = None
        self.given_up = False
        self.status = 0
        self._interrupted = False
        self._over = False
        self._size = 0
        self._refused: GuardRefused | None = None
        self._astray: str | None = None
        self._started = time.monotonic()
        self._lines.clear()
        self._parts.clear()
        self.curl.setopt(pycurl.URL, request.address)
        if request.spent or self._hurried:  # redirects take from the time of one page
            left = max(0.001, self._options.total_timeout - request.spent)
            self.curl.setopt(pycurl.TIMEOUT_MS, int(left * 1000))
            self._hurried = request.spent > 0
        if request.kept or self._conditional:
            self.curl.setopt(pycurl.HTTPHEADER, [*_HEADER, *_conditions(request.kept)])
            self._conditional = request.kept is not None

    def end(self, failure: int | None) -> None:
        """libcurl is done with it; `failure` is its error."""
        self._over = True
        self.failure = failure
        self.status = self.curl.getinfo(pycurl.RESPONSE_CODE)
        if not self.given_up:
            self.came = failure is None and self.status in _SUCCESSES
            self.finished.append(self)

    def interrupt(self, seconds: float) -> None:
        """Nobody looked after the transfer for so long: running out of time in it is not the server's fault."""
        self._interrupted = True
        self._started += seconds

    def give_up_if_stuck(self, now: float) -> None:
        """libcurl has no timer for the first byte of an answer."""
        if self._over or self._lines or self.given_up or now - self._started <= self._options.first_byte_timeout:
            return
        self.given_up = True
        self.finished.append(self)

    def clear(self) -> None:
        """Lets go of the request, whose tag may come to hold its page, and of what it brought."""
        del self.request
        self._parts.clear()

    def redirect(self) -> str | None:
        """The address at which the request is to go on; None when it is over here."""
        if self.status not in _REDIRECTS or self.given_up:
            return None
        if self.failure is not None and self._size <= self._options.max_body:
            return None
        locations = _LOCATION.findall(self._head())
        if not locations:
            return None
        if len(self.request.passed) >= self._options.max_redirects:
            self._astray = failures.describe_too_many_redirects(self._options)
            return None
        target = absolute_url(_text(locations[-1]), self.request.address)
        address = canonical_url(target) if target else None
        if address is None:
            self._astray = failures.describe_bad_redirect(target, _where(self.curl))
        return address

    def seconds(self) -> float:
        """How long it has taken, but for the time in which nobody looked after it."""
        return min(self.curl.getinfo(pycurl.TOTAL_TIME), time.monotonic() - self._started)

    def is_retryable(self) -> bool:
        """Whether the request failed and may fare better in a moment."""
        if self.given_up or self._refused or self._size > self._options.max_body:
            return False
        if self.failure is None:
            return failures.is_retryable_status(self.status)
        if self.failure == pycurl.E_OPERATION_TIMEDOUT:
            return self._interrupted
        return failures.is_retryable_error(self.failure)

    def asks_to_be_left_alone(self) -> float | None:
        """Seconds that an overloaded server asks for, 0 when it names none; None when it is not overloaded."""
        if self.failure is not None or self.given_up or self.status not in (429, 503):
            return None
        asked = _RETRY_AFTER.findall(self._head())
        return (parse_retry_after(asked[-1].decode("latin-1")) if asked else None) or 0.0

    def page(self, now: datetime) -> Page:
        request, most = self.request, self._options.max_body
        error = None if self.came else self._error()
        content_type, charset = parse_content_type((self.curl.getinfo_raw(pycurl.CONTENT_TYPE) or b"")[:_MOST_TYPE])
        head = self._head()
        body = b"".join(self._parts) if error is None or self._size > most else b""
        try:
            body = codings.undone(body, head, most)
        except codings.Undecodable:
            body, error = b"", failures.UNDECODABLE
        if len(body) > most:
            body, error = body[:most], error or failures.describe_too_large(self._options)
        return Page(
            request.url,
            request.address,
            self.status or None,
            error,
            content_type,
            charset,
            body,
            now,
            request.passed[:-1],
            head,
            self._size,
        )

    def _head(self) -> bytes:
        """The lines that have come of the answer's header."""
        return b"".join(self._lines)

    def _add(self, data: bytes) -> int | None:
        """Takes what has come; libcurl gives up when told another length than that of `data`."""
        self._parts.append(data)
        self._size += len(data)
        return 0 if self._size > self._options.max_body else None

    def _open_socket(self, purpose: int, address: Any) -> Any:
        """Every connection passes here with the address it really goes to, after redirects and name lookups."""
        try:
            self._guard.check(address.addr[0])
        except GuardRefused as refused:
            self._refused = refused
            return pycurl.SOCKET_BAD
        return _Socket(address.family, address.socktype, address.protocol)

    def _error(self) -> str | None:
        if self.failure is None and self.status == 304 and not self.request.kept:
            return failures.UNEXPECTED_NOT_MODIFIED
        if (self.failure is None and not self.given_up) or self._astray:
            return self._astray
        where = _where(self.curl)
        if self._size > self._options.max_body:
            return failures.describe_too_large(self._options)
        if self.given_up:
            return failures.describe_missing_answer(where, self._options)
        if self._refused:
            return f"refused: {self._refused.of(where.rpartition(':')[0])}"
        detail = self.curl.errstr_raw().decode("latin-1")  # it may quote what the server sent
        return failures.describe_curl_error(self.failure or 0, detail, where, self._options)


class _Socket(socket.socket):
    """libcurl works on a duplicate of this socket; this one may go at once."""

    def __del__(self) -> None:
        self.close()


def _handle(options: FetchOptions) -> pycurl.Curl:
    """A libcurl handle with everything set that stays the same from request to request."""
    curl = pycurl.Curl()
    for option, value in (
        (pycurl.NOSIGNAL, 1),
        (pycurl.BUFFERSIZE, _READ),
        (pycurl.PROXY, ""),  # nor one from the environment: the guard must see every address
        (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
        (pycurl.FOLLOWLOCATION, 0),  # each address is asked for by leave of its own host
        (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS),
        (pycurl.USERAGENT, options.user_agent),
        (pycurl.HTTPHEADER, _HEADER),
        (pycurl.CONNECTTIMEOUT_MS, int(options.connect_timeout * 1000)),
        (pycurl.TIMEOUT_MS, int(options.total_timeout * 1000)),
        (pycurl.LOW_SPEED_LIMIT, _SLOWEST),
        (pycurl.LOW_SPEED_TIME, max(1, round(options.first_byte_timeout))),
        (pycurl.CAINFO, ssl.get_default_verify_paths().cafile or certifi.where()),
    ):
        curl.setopt(option, value)
    return curl


def _conditions(kept: Page | None) -> list[bytes]:
    """Header lines that ask for a page only if it is other than the one that is kept (RFC 9110, section 13.1)."""
    etag = kept.header("etag") if kept else None
    changed = kept.header("last-modified") if kept else None
    lines = (f"If-None-Match: {etag}" if etag else "", f"If-Modified-Since: {changed}" if changed else "")
    return [line.encode("latin-1") for line in lines if line]


def _where(curl: pycurl.Curl) -> str:
    """host:port that a transfer last turned to."""
    parts = URL(curl.getinfo_raw(pycurl.EFFECTIVE_URL).decode("utf-8", "replace"))
    return f"{parts.hostname}:{parts.port or ('443' if parts.protocol == 'https:' else '80')}"


def _text(location: bytes) -> str:
    """UTF-8, or what each other byte is in an address: servers send their own encodings as they are."""
    try:
        return location.decode()
    except UnicodeDecodeError:
        return _NOT_ASCII.sub(lambda byte: b"%%%02X" % byte[0][0], location).decode()
