"""A TCP proxy in front of an HTTP server that refuses, ignores, delays, resets and truncates as a test wants."""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

Fault = Literal["refused", "cut", "silent", "slow", "reset", "truncated"]
CLOSING = ("refused", "cut")
DELAY_SECONDS = 0.3
TRUNCATED_BYTES = 40_000  # of an answer, with its header
RESET = struct.pack("ii", 1, 0)  # the connection is closed by RST


@dataclass
class FaultyProxy:
    """`fault` hits the requests whose first line matches `pattern`, `left` times; None is always.

    `refused` closes every new connection at once, and an open one when more is asked on it; `cut` also all open ones;
    `silent` reads requests and never answers them.
    `hits` counts.
    """

    url: str
    fault: Fault | None = None
    pattern: str = ""
    left: int | None = None
    hits: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    connections: set[socket.socket] = field(default_factory=set[socket.socket])

    def fail(self, fault: Fault | None, pattern: str = "", times: int | None = None) -> None:
        self.fault, self.pattern, self.left, self.hits = fault, pattern, times, 0
        if fault == "cut":
            for connection in [*self.connections]:
                _shut_down(connection)

    def take(self, line: str) -> Fault | None:
        with self.lock:
            if self.fault is None or self.left == 0 or not re.search(self.pattern, line):
                return None
            self.hits += 1
            if self.left is not None:
                self.left -= 1
            return self.fault


@contextmanager
def serve_faulty_proxy(target: str, host: str = "127.0.0.1") -> Generator[FaultyProxy]:
    parts = urlsplit(target)
    address = (parts.hostname or "", parts.port or 80)
    with socket.create_server((host, 0), backlog=128) as server:
        proxy = FaultyProxy(f"http://{host}:{server.getsockname()[1]}")
        stop = threading.Event()

        def accept() -> None:
            while not stop.is_set():
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                if proxy.fault in CLOSING and proxy.take(""):
                    _reset(client)
                    continue
                threading.Thread(target=_serve, args=(proxy, client, address), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield proxy
        stop.set()


def _serve(proxy: FaultyProxy, client: socket.socket, address: tuple[str, int]) -> None:
    with client, suppress(OSError), socket.create_connection(address, timeout=60) as upstream:
        upstream.settimeout(None)  # a connection to a database may be idle for long
        truncates = threading.Event()
        answers = threading.Thread(target=_answer, args=(upstream, client, truncates), daemon=True)
        answers.start()
        proxy.connections.add(client)
        while data := client.recv(1 << 16):
            line = data.split(b"\r\n", 1)[0].decode("latin-1")
            is_request = re.match(r"[A-Z]+ \S+ HTTP/1", line) is not None
            fault = proxy.take(line) if is_request or proxy.fault in CLOSING else None
            if fault in ("reset", *CLOSING):
                _reset(client)
                return
            if fault == "silent":
                continue
            if fault == "slow":
                time.sleep(DELAY_SECONDS)
            if fault == "truncated":
                truncates.set()
            upstream.sendall(data)
        proxy.connections.discard(client)
        upstream.shutdown(socket.SHUT_WR)
        answers.join(60)


def _answer(upstream: socket.socket, client: socket.socket, truncates: threading.Event) -> None:
    sent = 0
    with suppress(OSError):
        while data := upstream.recv(1 << 14):
            client.sendall(data)
            sent += len(data)
            if truncates.is_set() and sent >= TRUNCATED_BYTES:
                _reset(client)
                return
        client.shutdown(socket.SHUT_WR)


def _reset(connection: socket.socket) -> None:
    _shut_down(connection)
    connection.close()


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        connection.shutdown(socket.SHUT_RDWR)
