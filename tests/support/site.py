"""A web site whose pages are answered when the test says so."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = b"<html><body><h1>Gate</h1><ul><li><a href='/a'>a</a></li><li><a href='/b'>b</a></li></ul></body></html>"


class GatedSite:
    """Every page is the same one, with two links; none is answered before `open` was called."""

    def __init__(self, server: ThreadingHTTPServer, gate: threading.Event, asked: threading.Event) -> None:
        self.url = f"http://127.0.0.1:{server.server_address[1]}/"
        self.open = gate.set
        self._asked = asked

    def wait_for_visitor(self, seconds: float = 120) -> None:
        assert self._asked.wait(seconds), "nobody asked for the page"


@contextmanager
def gated_site() -> Generator[GatedSite]:
    gate, asked = threading.Event(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/robots.txt":
                self.send_error(404)
                return
            asked.set()
            gate.wait(200)
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(PAGE)))
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield GatedSite(server, gate, asked)
    finally:
        gate.set()
        server.shutdown()
        server.server_close()
