"""A real HTTP server on loopback that misbehaves in one way for each path; imported as the fixture `bad_server`."""

from __future__ import annotations

import gzip
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from socketserver import StreamRequestHandler, ThreadingTCPServer
from urllib.parse import parse_qs, urlsplit

import pytest

PAGE = b"<!doctype html><html><head><title>Page</title></head><body><h1>It works</h1></body></html>"


class BadServer(ThreadingTCPServer):
    """`url(path)` is the address of a misbehaviour; `requests` counts by path, `connections` counts all.

    `coded` is what `/coded` answers: the Content-Encoding and the body. `times` are those of requests, by `clock`.
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: Counter[str] = Counter()
        self.headers: dict[str, dict[str, str]] = {}
        self.clock: Callable[[], float] = time.monotonic
        self.times: list[float] = []
        self.over = threading.Event()
        self.connections = 0
        self.coded = "", b""
        self.running: Counter[str] = Counter()
        self.most_running = 0
        self.lock = threading.Lock()

    @property
    def port(self) -> int:
        return self.server_address[1]

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that give up are what the tests are about."""


class _Handler(StreamRequestHandler):
    server: BadServer

    def handle(self) -> None:
        with self.server.lock:
            self.server.connections += 1
        while self._one():
            pass

    def _one(self) -> bool:
        line = self.rfile.readline().decode("latin-1").split()
        if len(line) < 2:
            return False
        headers = {}
        while (header := self.rfile.readline().decode("latin-1").strip()) != "":
            name, _, value = header.partition(":")
            headers[name.lower()] = value.strip()
        target = urlsplit(line[1])
        with self.server.lock:
            self.server.requests[target.path] += 1
            self.server.times.append(self.server.clock())
            self.server.headers[target.path] = headers
            count = self.server.requests[target.path]
            self.server.running[target.path] += 1
            self.server.most_running = max(self.server.most_running, sum(self.server.running.values()))
        query = {name: values[-1] for name, values in parse_qs(target.query, keep_blank_values=True).items()}
        try:
            return _BEHAVIOURS.get(target.path, _missing)(self, query, count) is not False
        finally:
            with self.server.lock:
                self.server.running[target.path] -= 1

    def answer(
        self, body: bytes = PAGE, status: str = "200 OK", kind: str | None = "text/html", **headers: object
    ) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {headers.pop('length', len(body))}"]
        if kind:
            lines.append(f"Content-Type: {kind}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    def send(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def reset(self) -> bool:
        """Closes with a TCP reset instead of a FIN."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        return False


Behaviour = Callable[[_Handler, dict[str, str], int], bool | None]


def _good(handler: _Handler, query: dict[str, str], count: int) -> None:
    handler.answer()


def _missing(handler: _Handler, query: dict[str, str], count: int) -> None:
    handler.answer(b"<h1>Not here</h1>", "404 Not Found")


def _typed(handler: _Handler, query: dict[str, str], count: int) -> None:
    """Any body, given in hex, as any content type; without `type` the header is left out."""
    handler.answer(bytes.fromhex(query["hex"]), kind=query.get("type"))


def _status(handler: _Handler, query: dict[str, str], count: int) -> None:
    handler.answer(status=f"{query['code']} As asked")


def _redirect(handler: _Handler, query: dict[str, str], count: int) -> None:
    handler.answer(b"", f"{query.get('code', '302')} Found", None, Location=query["to"])


def _chain(handler: _Handler, query: dict[str, str], count: int) -> None:
    left = int(query["left"])
    handler.answer(b"", "302 Found", None, Location=f"/chain?left={left - 1}" if left > 1 else "/good")


def _loop(handler: _Handler, query: dict[str, str], count: int) -> None:
    handler.answer(b"", "302 Found", None, Location="/loop")


def _flaky(handler: _Handler, query: dict[str, str], count: int) -> None:
    """Fails with `code` until it has been asked `times` times, each after `seconds`."""
    time.sleep(float(query.get("seconds", 0)))
    if count <= int(query["times"]):
        headers = {"Retry_After": query["after"]} if "after" in query else {}
        handler.answer(b"busy", f"{query['code']} Busy", **headers)
    else:
        handler.answer()


def _reset_once(handler: _Handler, query: dict[str, str], count: int) -> bool | None:
    return handler.reset() if count == 1 else handler.answer()


def _reset(handler: _Handler, query: dict[str, str], count: int) -> bool:
    return handler.reset()


def _reset_midway(handler: _Handler, query: dict[str, str], count: int) -> bool:
    handler.answer(b"x" * 1000, length=100_000)
    time.sleep(0.05)
    return handler.reset()


def _empty(handler: _Handler, query: dict[str, str], count: int) -> bool:
    time.sleep(float(query.get("seconds", 0)))
    return False


def _too_short(handler: _Handler, query: dict[str, str], count: int) -> bool:
    handler.answer(PAGE, length=len(PAGE) + 1000)
    return False


def _too_long(handler: _Handler, query: dict[str, str], count: int) -> bool:
    handler.answer(PAGE + b"more than was said", length=len(PAGE))
    return False


def _bad_length(handler: _Handler, query: dict[str, str], count: int) -> bool:
    handler.answer(PAGE, length="many")
    return False


def _not_http(handler: _Handler, query: dict[str, str], count: int) -> bool:
    handler.send(b"SSH-2.0-OpenSSH_9.2\r\n" * 10)
    return False


def _silent(handler: _Handler, query: dict[str, str], count: int) -> None:
    """Answers after `seconds`, or after the test."""
    handler.server.over.wait(float(query["seconds"]) if "seconds" in query else None)
    handler.answer()


def _stall(handler: _Handler, query: dict[str, str], count: int) -> bool:
    handler.answer(b"<p>so far", length=1000)
    handler.server.over.wait(float(query["seconds"]) if "seconds" in query else None)
    return False


def _drip(handler: _Handler, query: dict[str, str], count: int) -> bool:
    """A byte at a time, never quite silent."""
    handler.answer(b"", length=10_000)
    for _ in range(200):
        handler.send(b"x")
        time.sleep(0.05)
    return False


def _large(handler: _Handler, query: dict[str, str], count: int) -> bool:
    size = int(query["size"])
    handler.answer(b"", length=size)
    for _ in range(size // 65536 + 1):
        handler.send(b"x" * 65536)
    return False


def _padded(handler: _Handler, query: dict[str, str], count: int) -> bool:
    """A text, and line breaks up to `size`."""
    text, size = query["text"].encode(), int(query["size"])
    handler.answer(text, length=size)
    for _ in range(size // 65536 + 1):
        handler.send(b"\n" * 65536)
    return False


def _bomb(handler: _Handler, query: dict[str, str], count: int) -> None:
    """A small gzip stream of many zeros."""
    handler.answer(gzip.compress(bytes(int(query["size"]))), Content_Encoding="gzip")


def _slow_redirects(handler: _Handler, query: dict[str, str], count: int) -> None:
    """Each a little later, to an address of its own, for ever."""
    time.sleep(0.01)
    handler.answer(b"", "302 Found", None, Location=f"/slow-redirects?{count}")


def _bad_gzip(handler: _Handler, query: dict[str, str], count: int) -> None:
    handler.answer(b"this is no gzip stream", Content_Encoding="gzip")


def _coded(handler: _Handler, query: dict[str, str], count: int) -> None:
    coding, body = handler.server.coded
    handler.answer(body, query.get("status", "200 OK"), Content_Encoding=coding)


def _unyielding(handler: _Handler, query: dict[str, str], count: int) -> bool:
    """A gzip stream of empty blocks without end."""
    handler.send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\0\0\0\0\0\0\x03")
    while True:  # until the fetcher has closed the connection
        handler.send(b"\0\0\0\xff\xff" * 10_000)


def _headers(handler: _Handler, query: dict[str, str], count: int) -> None:
    """Cookies without end."""
    cookies = "".join(f"Set-Cookie: c{each}={'v' * 20}\r\n" for each in range(int(query["count"])))
    handler.send(f"HTTP/1.1 200 OK\r\nContent-Length: {len(PAGE)}\r\n{cookies}\r\n".encode() + PAGE)


def _validated(handler: _Handler, query: dict[str, str], count: int) -> None:
    """Says 304 to who has the version `etag` already."""
    etag = f'"{query["etag"]}"'
    if handler.server.headers["/validated"].get("if-none-match") == etag:
        handler.answer(b"", "304 Not Modified", None, ETag=etag)
    else:
        handler.answer(ETag=etag, Last_Modified="Sat, 01 Nov 2025 00:00:00 GMT")


def _said(handler: _Handler, query: dict[str, str], count: int) -> None:
    """With a header as asked."""
    name, _, value = query["header"].partition(": ")
    handler.answer(**{name: value})


def _counted(handler: _Handler, query: dict[str, str], count: int) -> None:
    """Another page each time."""
    handler.answer(b"<p>%d" % count)


def _slow(handler: _Handler, query: dict[str, str], count: int) -> None:
    time.sleep(0.05)
    handler.answer()


_BEHAVIOURS: dict[str, Behaviour] = {
    "/good": _good,
    "/typed": _typed,
    "/status": _status,
    "/redirect": _redirect,
    "/chain": _chain,
    "/loop": _loop,
    "/flaky": _flaky,
    "/reset-once": _reset_once,
    "/reset": _reset,
    "/reset-midway": _reset_midway,
    "/empty": _empty,
    "/too-short": _too_short,
    "/too-long": _too_long,
    "/bad-length": _bad_length,
    "/not-http": _not_http,
    "/silent": _silent,
    "/stall": _stall,
    "/drip": _drip,
    "/large": _large,
    "/padded": _padded,
    "/bomb": _bomb,
    "/slow-redirects": _slow_redirects,
    "/bad-gzip": _bad_gzip,
    "/coded": _coded,
    "/unyielding": _unyielding,
    "/headers": _headers,
    "/validated": _validated,
    "/said": _said,
    "/counted": _counted,
    "/slow": _slow,
}


@pytest.fixture
def bad_server() -> Iterator[BadServer]:
    with BadServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()
