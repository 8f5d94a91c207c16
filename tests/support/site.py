"""Small web sites: one whose pages a test defines, and one that answers only when the test allows it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from tests.support.servers import Handler, serve

PAGE = b"<html><body><h1>Gate</h1><ul><li><a href='/a'>a</a></li><li><a href='/b'>b</a></li></ul></body></html>"
HOLD_SECONDS = 200


class Site:
    """A site of pages by path, with counts of the requests for each.

    A page that is a number is answered with that status, and bytes are sent without a charset. `redirects` maps paths
    to locations. Each answer takes `delay` seconds; pages that are on hold wait for their release. With `has_etags`,
    pages have an ETag, and `unchanged` counts the answers with status 304. A missing robots.txt is not counted.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._changed = threading.Condition()
        self._held: frozenset[str] = frozenset()
        self.running = 0
        self.serve({})

    def serve(self, pages: Mapping[str, str | bytes | int], types: Mapping[str, str] | None = None) -> str:
        """Replace the pages, reset the counts, and return the site's URL without a trailing slash.

        Pages are HTML unless `types` has their media type.
        """
        self.pages, self.types = dict(pages), dict(types or {})
        self.redirects: dict[str, str] = {}
        self.has_etags = False
        self.unchanged: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.delay = 0.0
        self.most_running = self.bytes_sent = 0
        self.hold(())
        return self.url

    def hold(self, paths: Collection[str]) -> None:
        """Delay the answers of these paths until another call omits them."""
        with self._changed:
            self._held = frozenset(paths)
            self._changed.notify_all()

    def answer(self, handler: Handler) -> None:
        path = handler.path
        missing_robots = path == "/robots.txt" and path not in self.pages
        with self._changed:
            if not missing_robots:
                self.requests[path] += 1
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        time.sleep(self.delay)
        page = self.pages.get(path, 404)
        body = page.encode() if isinstance(page, str) else page if isinstance(page, bytes) else b"<h1>no</h1>"
        with self._changed:
            self._changed.wait_for(lambda: path not in self._held, HOLD_SECONDS)
            self.running -= 1
            self.bytes_sent += 0 if missing_robots else len(body)
        media_type = f"{self.types.get(path, 'text/html')}{'' if isinstance(page, bytes) else '; charset=utf-8'}"
        etag = f'"{sha256(body).hexdigest()[:16]}"' if self.has_etags and not isinstance(page, int) else None
        if etag and handler.headers.get("If-None-Match") == etag:
            self.unchanged[path] += 1
            handler.respond(304, b"", media_type, ETag=etag)
        elif etag:
            handler.respond(200, body, media_type, ETag=etag)
        elif path in self.redirects:
            handler.respond(302, body, media_type, Location=self.redirects[path])
        else:
            handler.respond(page if isinstance(page, int) else 200, body, media_type)


class GatedSite:
    """A site with one page, which has two links, under every path; it answers no request before `open` is called."""

    def __init__(self, url: str) -> None:
        self.url = f"{url}/"
        self._gate, self._visited = threading.Event(), threading.Event()

    def open(self) -> None:
        self._gate.set()

    def close(self) -> None:
        """Hold the next visitor again."""
        self._gate.clear()
        self._visited.clear()

    def wait_for_visitor(self, seconds: float = 120) -> None:
        assert self._visited.wait(seconds), "nobody requested a page"

    def answer(self, handler: Handler) -> None:
        if handler.path == "/robots.txt":
            handler.respond(404)
            return
        self._visited.set()
        self._gate.wait(HOLD_SECONDS)
        handler.respond(200, PAGE)


@contextmanager
def serve_site() -> Generator[Site]:
    with _serve(Site) as site:
        yield site
        site.hold(())


@contextmanager
def serve_gated_site() -> Generator[GatedSite]:
    with _serve(GatedSite) as site:
        try:
            yield site
        finally:
            site.open()


@contextmanager
def _serve(make_site: Callable[[str], Any]) -> Generator[Any]:
    class SiteHandler(Handler):
        def do_GET(self) -> None:
            site.answer(self)

    with serve(SiteHandler) as url:
        site = make_site(url)
        yield site
