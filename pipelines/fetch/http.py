"""Pages over HTTP by libcurl's multi interface: many requests in flight on one thread, connections kept."""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from io import BytesIO
from random import SystemRandom
from types import TracebackType
from typing import Any, Self, TypeVar

import certifi
import pycurl
from ada_url import URL

from pipelines.fetch.failures import no_answer, passing_error, passing_status, retry_after, sentence, too_large
from pipelines.fetch.guard import Guard, GuardRefused
from pipelines.fetch.options import FetchOptions
from pipelines.fetch.page import Page
from pipelines.fetch.queue import Request, RequestQueue
from pipelines.fetch.urls import absolute_url, canonical_url

T = TypeVar("T")

_ACCEPT = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
_SLOWEST = 32  # bytes a second; a page that comes slower than this for first_byte_timeout is given up
_TICK = 0.1  # seconds between looks at what libcurl has no timer for
_LOCATION = re.compile(rb"(?im)^location:[ \t]*([^\r\n]*)")
_RETRY_AFTER = re.compile(rb"(?im)^retry-after:[ \t]*([^\r\n]*)")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)
_random = SystemRandom()


class _Transfer:
    """A libcurl handle with what one request of it collects; used for one request after another."""

    __slots__ = ("curl", "failure", "finished", "guard", "head", "limit", "parts", "refused", "request", "silent", "size", "started")

    request: Request[Any]
    finished: deque[_Transfer]

    def __init__(self, options: FetchOptions, guard: Guard) -> None:
        self.guard = guard
        self.limit = options.max_body
        self.head = BytesIO()
        self.curl = _handle(options)
        self.curl.transfer = self  # type: ignore[attr-defined]
        self.curl.setopt(pycurl.WRITEFUNCTION, self.receive)
        self.curl.setopt(pycurl.HEADERFUNCTION, self.head.write)
        self.curl.setopt(pycurl.OPENSOCKETFUNCTION, self.open_socket)

    def prepare(self, request: Request[Any], url: str, finished: deque[_Transfer]) -> None:
        self.request = request
        self.finished = finished
        self.parts: list[bytes] = []
        self.size = 0
        self.refused: str | None = None
        self.failure: int | None = None
        self.silent = False
        self.started = time.monotonic()
        self.head.seek(0)
        self.head.truncate()
        self.curl.setopt(pycurl.URL, url)

    def receive(self, data: bytes) -> int:
        self.size += len(data)
        if self.size > self.limit:
            return 0  # anything but the length of data makes libcurl give up
        self.parts.append(data)
        return len(data)

    def open_socket(self, purpose: int, address: Any) -> Any:
        """Every connection passes here with the address it really goes to, after redirects and name lookups."""
        try:
            self.guard.check(address.addr[0])
        except GuardRefused as refused:
            self.refused = str(refused)
            return pycurl.SOCKET_BAD
        return _Socket(address.family, address.socktype, address.protocol)


class _Socket(socket.socket):
    """libcurl works on a duplicate of this socket; this one may go at once."""

    def __del__(self) -> None:
        self.close()


class HttpFetcher:
    """Fetches pages, up to `options.concurrency` at a time; for one thread. Connections live until `close`."""

    def __init__(self, options: FetchOptions | None = None) -> None:
        self._options = options or FetchOptions()
        self._guard = Guard(self._options.allow_networks)
        self._idle: list[_Transfer] = []
        self._next_look = 0.0
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
        self._multi.setopt(pycurl.M_MAXCONNECTS, 4 * self._options.concurrency)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for transfer in self._idle:
            transfer.curl.close()
        self._idle.clear()
        self._multi.close()

    def fetch(self, requests: Iterable[tuple[str, T]]) -> Iterator[tuple[Page, T]]:
        """A page for each (url, tag), in the order in which they finish; failures are pages with an `error`.

        `requests` is pulled from only as requests can start. Several such iterators of one fetcher may be interleaved.
        """
        queue = RequestQueue(requests, self._options)
        active: set[_Transfer] = set()
        finished: deque[_Transfer] = deque()
        try:
            while True:
                pages = [page for transfer in _drain(finished) if (page := self._finish(transfer, active, queue))]
                pages += self._start(active, finished, queue)
                self._perform()
                yield from pages
                if not active and queue.empty:
                    return
                if not finished:
                    self._wait(active, queue)
        finally:
            for transfer in active:
                self._multi.remove_handle(transfer.curl)
                self._idle.append(transfer)

    def _start(
        self, active: set[_Transfer], finished: deque[_Transfer], queue: RequestQueue[T]
    ) -> list[tuple[Page, T]]:
        """Starts what may start; pages of what cannot even be tried."""
        refused: list[tuple[Page, T]] = []
        while len(active) < self._options.concurrency and (request := queue.next()):
            url = canonical_url(request.url)
            if url is None:
                queue.done(request)
                refused.append((_no_page(request.url, "is not an http or https address"), request.tag))
                continue
            transfer = self._idle.pop() if self._idle else _Transfer(self._options, self._guard)
            transfer.prepare(request, url, finished)
            active.add(transfer)
            self._multi.add_handle(transfer.curl)
        return refused

    def _perform(self) -> None:
        """Lets libcurl work and hands what is done to the iterators that asked for it."""
        self._multi.perform()
        left = 1
        while left:
            left, succeeded, failed = self._multi.info_read()
            for curl in succeeded:
                curl.transfer.finished.append(curl.transfer)
            for curl, code, _ in failed:
                curl.transfer.failure = code
                curl.transfer.finished.append(curl.transfer)

    def _wait(self, active: set[_Transfer], queue: RequestQueue[T]) -> None:
        """Waits until a socket is ready, a retry is due or a tick is over."""
        seconds = queue.wait(_TICK)
        if self._multi.select(seconds) < 0:
            time.sleep(min(seconds, 0.01) if active else seconds)
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _TICK
            self._give_up_silent(active, now - self._options.first_byte_timeout)

    def _give_up_silent(self, active: set[_Transfer], started_before: float) -> None:
        for transfer in active:
            if transfer.started < started_before and not transfer.head.tell() and not transfer.silent:
                transfer.silent = True
                transfer.finished.append(transfer)

    def _finish(
        self, transfer: _Transfer, active: set[_Transfer], queue: RequestQueue[T]
    ) -> tuple[Page, T] | None:
        """The page of a transfer that is over; None when it will be tried again."""
        self._multi.remove_handle(transfer.curl)
        active.discard(transfer)
        self._idle.append(transfer)
        request = transfer.request
        queue.done(request)
        delay = self._retry_delay(transfer)
        if delay is not None:
            request.attempt += 1
            queue.again(request, delay)
            return None
        return self._page(transfer), request.tag

    def _retry_delay(self, transfer: _Transfer) -> float | None:
        """Seconds until the next try: exponential with jitter, or what the server asks for; None for no other try."""
        options, attempt = self._options, transfer.request.attempt
        if attempt >= options.retries or not _may_pass(transfer):
            return None
        backoff = options.backoff * 2**attempt * _random.uniform(0.5, 1.5)
        asked = _RETRY_AFTER.findall(transfer.head.getvalue()) if transfer.failure is None else []
        seconds = retry_after(asked[-1].decode("latin-1")) if asked else None
        if seconds is not None and seconds > options.max_retry_after:
            return None
        return max(backoff, seconds or 0.0)

    def _page(self, transfer: _Transfer) -> Page:
        curl, request = transfer.curl, transfer.request
        error = self._error(transfer)
        status: int = curl.getinfo(pycurl.RESPONSE_CODE)
        url, redirects = request.url, ()
        if curl.getinfo(pycurl.REDIRECT_COUNT):
            url, redirects = _redirected(transfer)
        content_type, charset = parse_content_type(curl.getinfo_raw(pycurl.CONTENT_TYPE))
        parts = transfer.parts
        body = b"" if error else parts[0] if len(parts) == 1 else b"".join(parts)
        transfer.parts = []
        return Page(
            request.url, url, status or None, error, content_type, charset, body, datetime.now(UTC), redirects
        )

    def _error(self, transfer: _Transfer) -> str | None:
        if transfer.failure is None and not transfer.silent:
            return None
        where = _where(transfer.curl)
        if transfer.silent:
            return no_answer(where, self._options)
        if transfer.size > transfer.limit:
            return too_large(self._options)
        if transfer.refused:
            return f"refused: {transfer.refused}"
        return sentence(transfer.failure or 0, transfer.curl.errstr(), where, self._options)


def _handle(options: FetchOptions) -> pycurl.Curl:
    """A libcurl handle with everything set that stays the same from request to request."""
    curl = pycurl.Curl()
    for option, value in (
        (pycurl.NOSIGNAL, 1),
        (pycurl.PROXY, ""),  # nor one from the environment: the guard must see every address
        (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
        (pycurl.REDIR_PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
        (pycurl.FOLLOWLOCATION, 1),
        (pycurl.MAXREDIRS, options.max_redirects),
        (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS),
        (pycurl.ACCEPT_ENCODING, ""),  # all that libcurl can undo
        (pycurl.USERAGENT, options.user_agent),
        (pycurl.HTTPHEADER, [_ACCEPT]),
        (pycurl.CONNECTTIMEOUT_MS, int(options.connect_timeout * 1000)),
        (pycurl.TIMEOUT_MS, int(options.total_timeout * 1000)),
        (pycurl.LOW_SPEED_LIMIT, _SLOWEST),
        (pycurl.LOW_SPEED_TIME, max(1, round(options.first_byte_timeout))),
        (pycurl.CAINFO, ssl.get_default_verify_paths().cafile or certifi.where()),
    ):
        curl.setopt(option, value)
    return curl


def _drain(finished: deque[_Transfer]) -> Iterator[_Transfer]:
    while finished:
        yield finished.popleft()


def _may_pass(transfer: _Transfer) -> bool:
    """Whether the same request may fare better in a moment."""
    if transfer.silent or transfer.refused or transfer.size > transfer.limit:
        return False
    if transfer.failure is not None:
        return passing_error(transfer.failure)
    return passing_status(transfer.curl.getinfo(pycurl.RESPONSE_CODE))


def _redirected(transfer: _Transfer) -> tuple[str, tuple[str, ...]]:
    """Where the redirects led, and the addresses on the way."""
    address: str = transfer.request.url
    passed: list[str] = []
    followed: int = transfer.curl.getinfo(pycurl.REDIRECT_COUNT)
    for location in _LOCATION.findall(transfer.head.getvalue())[:followed]:
        address = absolute_url(location.decode("utf-8", "replace"), address) or address
        passed.append(address.partition("#")[0])
    final = transfer.curl.getinfo_raw(pycurl.EFFECTIVE_URL).decode("utf-8", "replace")
    return canonical_url(final) or address, tuple(passed[:-1])


def _where(curl: pycurl.Curl) -> str:
    """host:port that a transfer last turned to."""
    parts = URL(curl.getinfo_raw(pycurl.EFFECTIVE_URL).decode("utf-8", "replace"))
    return f"{parts.hostname}:{parts.port or ('443' if parts.protocol == 'https:' else '80')}"


def _no_page(url: str, why: str) -> Page:
    return Page(url, url, None, f"'{url[:200]}' {why}", None, None, b"", datetime.now(UTC))


@lru_cache(maxsize=256)
def parse_content_type(header: bytes | None) -> tuple[str | None, str | None]:
    """Media type and charset of a Content-Type header, in lower case."""
    if not header:
        return None, None
    text = header.decode("latin-1")
    charset = _CHARSET.search(text)
    return text.partition(";")[0].strip().lower() or None, charset.group(1).lower() if charset else None
