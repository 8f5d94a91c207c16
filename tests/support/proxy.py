"""An HTTP proxy on loopback that records what it is asked for."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.support.servers import Handler, serve


@dataclass
class Proxy:
    """`requests` are the targets of its requests and tunnels, `logins` their Proxy-Authorization."""

    url: str
    requests: list[str] = field(default_factory=list[str])
    logins: list[str | None] = field(default_factory=list[str | None])


@contextmanager
def serve_proxy() -> Generator[Proxy]:
    class ProxyHandler(Handler):
        def do_GET(self) -> None:
            self._record()
            parts = urlsplit(self.path)
            connection = http.client.HTTPConnection(parts.netloc, timeout=10)
            connection.request("GET", parts.path or "/")
            answer = connection.getresponse()
            self.respond(answer.status, answer.read(), answer.headers.get("Content-Type", "text/html"))
            connection.close()

        def do_CONNECT(self) -> None:
            self._record()
            host, _, port = self.path.rpartition(":")
            self.close_connection = True
            with socket.create_connection((host.strip("[]"), int(port)), timeout=10) as target:
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=_copy, args=(target, self.connection), daemon=True)
                back.start()
                _copy(self.connection, target)
                back.join(5)

        def _record(self) -> None:
            proxy.requests.append(self.path)
            proxy.logins.append(self.headers.get("Proxy-Authorization"))

    with serve(ProxyHandler) as url:
        proxy = Proxy(url)
        yield proxy


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
