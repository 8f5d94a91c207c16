"""A server that takes webhooks, and one that does not: how it answers is in the path."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """`/<status>/x` answers with this status, `/hang/x` never, `/reset/x` with a reset, `/flood/x` without end."""

    url: str
    received: list[Received] = field(default_factory=list)

    def of(self, path: str) -> list[Received]:
        return [each for each in self.received if each.path == path]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # the other side closed the connection, as it should


@contextmanager
def receiver() -> Generator[Receiver]:
    stop = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            names = {name.lower(): value for name, value in self.headers.items()}
            server.told.received.append(Received(self.path, names, body))
            kind = self.path.split("/")[1]
            if kind == "hang":
                stop.wait(600)
            elif kind == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
            elif kind == "flood":
                self._flood()
            else:
                self._answer(int(kind))

        def _answer(self, status: int) -> None:
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"{server.told.url}/200/redirected")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _flood(self) -> None:
            self.send_response(200)
            self.end_headers()
            while not stop.is_set():
                self.wfile.write(b"x" * 65536)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    server.told = Receiver(f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.told
    finally:
        stop.set()
        server.shutdown()
        server.server_close()
