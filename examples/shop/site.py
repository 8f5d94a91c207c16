"""A small shop for demos and tests, served on loopback: `python -m examples.shop.site --port 8900`.

120 product pages, 18 listing pages, five products whose pages are missing (404), gone (410) or dead (no answer), and a
broken link in every footer. The same pages at every start.
"""

from __future__ import annotations

import argparse
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from examples.shop.catalog import Product, categories, products
from examples.shop.pages import category_path, home, listing, missing, page_count, picture, product_page

HTML = "text/html; charset=utf-8"
STATUS = {"ok": 200, "missing": 404, "gone": 410}

Answer = tuple[int, str, str]


@cache
def _by_path() -> dict[str, Product]:
    return {product.path: product for product in products()}


@cache
def _by_image() -> dict[str, Product]:
    return {product.image: product for product in products()}


def answer(url: str) -> Answer | None:
    """Status, content type and body of a path; None where the shop hangs up without an answer."""
    parts = urlsplit(url)
    if parts.path == "/":
        return 200, HTML, home()
    if parts.path == "/robots.txt":
        return 200, "text/plain", "User-agent: *\nAllow: /\n"
    if image := _by_image().get(parts.path):
        return 200, "image/svg+xml", picture(image)
    if product := _by_path().get(parts.path):
        return _product_answer(product)
    return _listing_answer(parts.path, parse_qs(parts.query).get("page", ["1"])[0])


def _product_answer(product: Product) -> Answer | None:
    if product.page == "dead":
        return None
    return STATUS[product.page], HTML, product_page(product) if product.page == "ok" else missing(product.path)


def _listing_answer(path: str, page: str) -> Answer:
    category = next((category for category in categories() if category_path(category) == path), None)
    if category and page.isdecimal() and 1 <= int(page) <= page_count(category):
        return 200, HTML, listing(category, int(page))
    return 404, HTML, missing(path)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        found = answer(self.path)
        if found is None:
            self.close_connection = True
            return
        status, content_type, text = found
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """A line a request would drown what the demo shows."""


def server(port: int, host: str = "127.0.0.1") -> ThreadingHTTPServer:
    """A bound server, not yet serving; port 0 takes a free one."""
    return ThreadingHTTPServer((host, port), Handler)


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the demo shop on loopback.")
    parser.add_argument("--port", type=int, default=8900)
    port = parser.parse_args().port
    try:
        shop = server(port)
    except OSError as error:
        parser.error(f"cannot listen on 127.0.0.1:{port} ({error.strerror}); choose another --port")
    print(f"shop at http://127.0.0.1:{shop.server_port}/", flush=True)
    try:
        shop.serve_forever()
    except KeyboardInterrupt:
        shop.server_close()


if __name__ == "__main__":
    main()
