"""One HTTP request on a libcurl handle, and the page it results in."""

from __future__ import annotations

import re
import time
from collections import deque
from datetime import datetime
from typing import Any

import pycurl

from pipelines.fetch import failures
from pipelines.fetch.content_encoding import ACCEPT_ENCODING, UndecodableContent, decode_content
from pipelines.fetch.fetcher import FetchOptions
from pipelines.fetch.page import Page, parse_content_type, parse_retry_after
from pipelines.fetch.queue import Request
from pipelines.fetch.requests import is_same_site
from pipelines.fetch.urls import absolute_url, canonical_url, decode_address
from pipelines.http_client.failures import describe_curl_error, get_host, is_retryable_error
from pipelines.http_client.guard import Guard
from pipelines.http_client.handles import GuardedSockets, find_ca_file, make_handle

_HEADER = [
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    f"Accept-Encoding: {ACCEPT_ENCODING}",  # libcurl does not know, and delivers the encoded body
]
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_SUCCESSES = range(200, 300)
_BUFFER_SIZE = 64 * 1024  # bytes; with libcurl's default of 16 KiB most pages took several reads
_MAX_CONTENT_TYPE = 1024  # bytes of a Content-Type that are parsed
_LOCATION = re.compile(rb"(?im)^location:[ \t]*([^\s][^\r\n]*)")
_SET_COOKIE = re.compile(rb"(?im)^set-cookie:[ \t]*([^\s=;]*)[ \t]*=")
_RETRY_AFTER = re.compile(rb"(?im)^retry-after:[ \t]*([^\r\n]*)")


class Transfer:
    """A libcurl handle that sends one request after another, and the state of the current one."""

    __slots__ = (
        "_bad_redirect",
        "_changed",
        "_ended",
        "_excused",
        "_has_own_timeout",
        "_lines",
        "_options",
        "_parts",
        "_size",
        "_sockets",
        "_started",
        "curl",
        "curl_error",
        "finished",
        "missing_answer",
        "request",
        "status",
        "succeeded",
    )

    request: Request[Any]
    succeeded: bool  # with a 2xx page: neither a redirect nor a retry can follow
    finished: deque[Transfer]
    curl_error: int | None
    missing_answer: bool  # aborted while waiting for the first byte
    status: int

    def __init__(self, options: FetchOptions, guard: Guard) -> None:
        self._options = options
        self._sockets = GuardedSockets(guard)
        self._lines: list[bytes] = []
        self._parts: list[bytes] = []
        self._changed = False
        self._has_own_timeout = False
        self.curl = _make_handle(options, self._sockets)
        self.curl.setopt(pycurl.WRITEFUNCTION, self._add)
        self.curl.setopt(pycurl.HEADERFUNCTION, self._lines.append)

    def prepare(self, request: Request[Any], finished: deque[Transfer]) -> None:
        """Set up `request`; when it ends, the transfer appends itself to `finished`."""
        self.request = request
        self.finished = finished
        self.succeeded = False
        self.curl_error = None
        self.missing_answer = False
        self.status = 0
        self._excused = False
        self._ended = False
        self._size = 0
        self._sockets.refused = None
        self._bad_redirect: str | None = None
        self._started = time.monotonic()
        self._lines.clear()
        self._parts.clear()
        self.curl.setopt(pycurl.URL, request.address)
        if request.elapsed or self._has_own_timeout:  # the total timeout includes redirects
            remaining = max(0.001, self._options.total_timeout - request.elapsed)
            self.curl.setopt(pycurl.TIMEOUT_MS, int(remaining * 1000))
            self._has_own_timeout = request.elapsed > 0
        if request.stale or request.details or self._changed:
            self._set_header(request)
            self._changed = request.stale is not None or request.details is not None

    def _set_header(self, request: Request[Any]) -> None:
        """Set the method, the header and the body, which differ from those of a plain GET or did so before."""
        details, curl = request.details, self.curl
        if details is None:
            curl.setopt(pycurl.HTTPHEADER, [*_HEADER, *_make_conditions(request.stale)])
        else:
            named = details.list_headers(request.address)
            names = {name.lower() for name, _ in named}
            lines = [line for line in _HEADER if line.partition(":")[0].lower() not in names]
            sent = [f"{name}: {value}" if value else f"{name};" for name, value in named]  # `Name:` would remove it
            curl.setopt(
                pycurl.HTTPHEADER,
                [*lines, *(each.encode("latin-1") for each in (*sent, "Expect:")), *_make_conditions(request.stale)],
            )
        cookies = details.format_cookies(request.address) if details else ""
        if cookies:
            curl.setopt(pycurl.COOKIE, cookies.encode("latin-1"))
        else:
            curl.unsetopt(pycurl.COOKIE)
        curl.unsetopt(pycurl.CUSTOMREQUEST)
        curl.setopt(pycurl.HTTPGET, 1)
        if details and details.method != "GET":
            if details.body is not None or details.method == "POST":
                curl.setopt(pycurl.POSTFIELDS, details.body or b"")
            curl.setopt(pycurl.CUSTOMREQUEST, details.method)

    def end(self, curl_error: int | None) -> None:
        """Record that libcurl has finished."""
        self._ended = True
        self.curl_error = curl_error
        self.status = self.curl.getinfo(pycurl.RESPONSE_CODE)
        if not self.missing_answer:
            self.succeeded = curl_error is None and self.status in _SUCCESSES
            self.finished.append(self)

    def excuse_pause(self, seconds: float) -> None:
        """Record that this process did not serve the transfer for so long: a timeout may be its own fault."""
        self._excused = True
        self._started += seconds

    def check_first_byte(self, now: float) -> None:
        """Abort the transfer if the first byte of the answer is late; libcurl has no timer for that."""
        if self._ended or self._lines or self.missing_answer:
            return
        if now - self._started > self._options.first_byte_timeout:
            self.missing_answer = True
            self.finished.append(self)

    def clear(self) -> None:
        """Drop the request, whose tag may refer to its page, and the body."""
        del self.request
        self._parts.clear()

    def find_redirect(self) -> str | None:
        """Return the canonical URL of a redirect to follow."""
        if self.status not in _REDIRECTS or self.missing_answer:
            return None
        if self.curl_error is not None and self._size <= self._options.max_body:
            return None
        locations = _LOCATION.findall(self._get_head())
        if not locations:
            return None
        if too_many := self.describe_last_redirect():
            self._bad_redirect = too_many
            return None
        target = absolute_url(decode_address(locations[-1]), self.request.address)
        address = canonical_url(target) if target else None
        if address is None:
            self._bad_redirect = failures.describe_bad_redirect(target, get_host(self.curl))
        elif self._repeats_body_elsewhere(address):
            self._bad_redirect = failures.describe_foreign_redirect(get_host(self.curl), address)
            return None
        return address

    def describe_last_redirect(self) -> str | None:
        """Return the failure of a request that has followed as many redirects as it may."""
        if len(self.request.redirects) < self._options.max_redirects:
            return None
        sets_cookies = bool(self.request.cookies or self.list_set_cookies())
        return failures.describe_too_many_redirects(self._options, sets_cookies)

    def _repeats_body_elsewhere(self, address: str) -> bool:
        """Return whether a redirect asks to send the body, which may have a password, to another site."""
        details = self.request.details
        is_repeated = details is not None and details.follow(self.status).method != "GET"
        return is_repeated and not is_same_site(address, self.request.address)

    def list_set_cookies(self) -> list[str]:
        """Return the names of the cookies that the answer sets or deletes."""
        head = self._get_head()
        if b"\nset-cookie:" not in head.lower():  # the usual case, and faster than the pattern
            return []
        return [name.decode("latin-1") for name in _SET_COOKIE.findall(head)]

    def get_seconds(self) -> float:
        """Return the duration without pauses of this process."""
        return min(self.curl.getinfo(pycurl.TOTAL_TIME), time.monotonic() - self._started)

    def is_retryable(self) -> bool:
        """Return whether the request failed and a retry may help."""
        if self.missing_answer or self._sockets.refused or self._size > self._options.max_body:
            return False
        if self.request.details and not self.request.details.is_repeatable:
            return self._never_arrived()
        if self.curl_error is None:
            return self.request.attempt < self._options.count_retries(self.status)
        if self.curl_error == pycurl.E_OPERATION_TIMEDOUT:
            return self._excused
        return is_retryable_error(self.curl_error)

    def _never_arrived(self) -> bool:
        """Return whether the server did not act on the request."""
        if self.curl_error is None:
            return self.status in (429, 503) and self.status in self._options.retry_statuses
        return self.curl_error in (pycurl.E_COULDNT_RESOLVE_HOST, pycurl.E_COULDNT_CONNECT)

    def get_retry_after(self) -> float | None:
        """Return the Retry-After of an overloaded server in seconds, 0 without one; None if it is not overloaded."""
        if self.curl_error is not None or self.missing_answer or self.status not in (429, 503):
            return None
        values = _RETRY_AFTER.findall(self._get_head())
        return (parse_retry_after(values[-1].decode("latin-1")) if values else None) or 0.0

    def make_page(self, now: datetime) -> Page:
        request, max_body = self.request, self._options.max_body
        error = None if self.succeeded else self._describe_failure()
        header = (self.curl.getinfo_raw(pycurl.CONTENT_TYPE) or b"")[:_MAX_CONTENT_TYPE]
        content_type, charset = parse_content_type(header)
        head = self._get_head()
        body = b"".join(self._parts) if error is None or self._size > max_body else b""
        try:
            body = decode_content(body, head, max_body)
        except UndecodableContent:
            body, error = b"", failures.UNDECODABLE
        if len(body) > max_body:
            body, error = body[:max_body], error or failures.describe_too_large(self._options)
        return Page(
            request.addresses[0],
            request.address,
            self.status or None,
            error,
            content_type,
            charset,
            body,
            now,
            request.redirects[:-1],
            head,
            self._size,
            False,
            request.attempt + 1,
            request.elapsed + self.get_seconds(),
        )

    def _get_head(self) -> bytes:
        """Return the header lines received so far."""
        return b"".join(self._lines)

    def _add(self, data: bytes) -> int | None:
        """Append a part of the body; libcurl aborts the transfer if the returned length is wrong."""
        self._parts.append(data)
        self._size += len(data)
        return 0 if self._size > self._options.max_body else None

    def _describe_failure(self) -> str | None:
        if self.curl_error is None and self.status == 304 and not self.request.stale:
            return failures.UNEXPECTED_NOT_MODIFIED
        if (self.curl_error is None and not self.missing_answer) or self._bad_redirect:
            return self._bad_redirect
        host, refused = get_host(self.curl), self._sockets.refused
        if self._size > self._options.max_body:
            return failures.describe_too_large(self._options)
        if self.missing_answer or self._was_silent():
            return failures.describe_missing_answer(host, self._options)
        if refused:
            name = "the proxy" if self._options.proxies else host.rpartition(":")[0]
            return f"refused: {refused.describe_for(name)}"
        detail = self.curl.errstr_raw().decode("latin-1")  # it may quote the server
        code = self.curl_error or 0
        if self._options.proxies and failures.is_of_proxy(code, detail):
            return f"no proxy could connect to {host}"
        return describe_curl_error(code, detail, host, self._options.time_limits)

    def _was_silent(self) -> bool:
        """Return whether libcurl, which looks for slow transfers too, ended one that had received nothing."""
        is_late = self.curl_error == pycurl.E_OPERATION_TIMEDOUT and not self._lines
        return is_late and self.curl.errstr_raw().startswith(b"Operation too slow")


def _make_handle(options: FetchOptions, sockets: GuardedSockets) -> pycurl.Curl:
    """Return a libcurl handle with the options that all requests share; redirects are requests to the queue."""
    curl = make_handle(sockets, options.time_limits, options.user_agent)
    curl.setopt(pycurl.BUFFERSIZE, _BUFFER_SIZE)
    curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)
    curl.setopt(pycurl.HTTPHEADER, _HEADER)
    if options.proxies:
        curl.setopt(pycurl.PROXY_CAINFO, find_ca_file())
        curl.setopt(pycurl.NOPROXY, "")  # of the environment
    return curl


def _make_conditions(stale: Page | None) -> list[bytes]:
    """Return the header lines of a conditional request (RFC 9110, section 13.1)."""
    etag = stale.header("etag") if stale else None
    changed = stale.header("last-modified") if stale else None
    lines = (f"If-None-Match: {etag}" if etag else "", f"If-Modified-Since: {changed}" if changed else "")
    return [line.encode("latin-1") for line in lines if line]
