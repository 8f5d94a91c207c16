"""A small site whose pages a test writes down, and which counts how often each was asked for."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Site:
    """Pages by path; a number instead of a text is answered as that status. A missing robots.txt is not counted.

    `moved` are paths that redirect, with where to. `sent` are the bytes of all bodies, `times` when pages were asked
    for; each takes `seconds`, and `most_running` were asked for at a time. Those that are `held` take until they are
    not.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.pages: dict[str, str | int] = {}
        self.types: dict[str, str] = {}
        self.moved: dict[str, str] = {}
        self.requests: Counter[str] = Counter()
        self.times: list[float] = []
        self.seconds = 0.0
        self.held: set[str] = set()
        self.running = self.most_running = 0
        self.sent = 0

    def serve(self, pages: Mapping[str, str | int], types: Mapping[str, str] | None = None) -> str:
        """Replaces the pages, forgets the counts, and returns the site's address without a slash at its end.

        All are HTML but for those that `types` says more of.
        """
        self.pages, self.types = dict(pages), dict(types or {})
        self.moved.clear()
        self.requests.clear()
        self.times.clear()
        self.seconds = 0.0
        self.held.clear()
        self.most_running = 0
        self.sent = 0
        return self.url


@contextmanager
def serving() -> Generator[Site]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            with lock:
                if self.path != "/robots.txt" or self.path in site.pages:
                    site.requests[self.path] += 1
                if self.path != "/robots.txt":
                    site.times.append(time.monotonic())
                site.running += 1
                site.most_running = max(site.most_running, site.running)
            time.sleep(site.seconds)
            while self.path in site.held:
                time.sleep(0.05)
            with lock:
                site.running -= 1
            page = site.pages.get(self.path, 404)
            body = page.encode() if isinstance(page, str) else b"<h1>no</h1>"
            with lock:
                site.sent += len(body) if self.path in site.pages or self.path != "/robots.txt" else 0
            self.send_response(302 if self.path in site.moved else 200 if isinstance(page, str) else page)
            if self.path in site.moved:
                self.send_header("Location", site.moved[self.path])
            self.send_header("Content-Type", f"{site.types.get(self.path, 'text/html')}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site = Site(f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
