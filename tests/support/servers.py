"""HTTP servers on loopback, each in a thread of the test's process."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext


class Handler(BaseHTTPRequestHandler):
    """A request handler that logs nothing."""

    protocol_version = "HTTP/1.1"

    def respond(
        self, status: int = 200, body: bytes | str = b"", content_type: str = "text/html", **headers: str
    ) -> None:
        """Send a complete response; an underscore in a header's name stands for a hyphen."""
        content = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def read_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that close the connection early: many tests do so."""


@contextmanager
def serve(handler: type[BaseHTTPRequestHandler], tls: SSLContext | None = None) -> Generator[str]:
    """Run the handler on a free port and yield the server's URL, without a trailing slash."""
    server = _Server(("127.0.0.1", 0), handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
