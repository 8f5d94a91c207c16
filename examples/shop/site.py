"""A small shop for demos and tests, served on loopback: `python -m examples.shop.site --port 8900`.

120 product pages, 18 listing pages, five products whose pages are missing (404), gone (410) or dead (no answer), and a
broken link in every footer. The same pages at every start.
"""

from __future__ import annotations

import argparse
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from examples.shop.catalog import Product, list_categories, list_products
from examples.shop.pages import (
    count_pages,
    draw_picture,
    get_category_path,
    render_home,
    render_listing,
    render_missing,
    render_product,
)

HTML = "text/html; charset=utf-8"
STATUS = {"ok": 200, "missing": 404, "gone": 410}

Answer = tuple[int, str, str]


@cache
def _index_by_path() -> dict[str, Product]:
    return {product.path: product for product in list_products()}


@cache
def _index_by_image() -> dict[str, Product]:
    return {product.image: product for product in list_products()}


def find_answer(url: str) -> Answer | None:
    """Return status, content type and body of a path, or None to close the connection without an answer."""
    parts = urlsplit(url)
    if parts.path == "/":
        return 200, HTML, render_home()
    if parts.path == "/robots.txt":
        return 200, "text/plain", "User-agent: *\nAllow: /\n"
    if image := _index_by_image().get(parts.path):
        return 200, "image/svg+xml", draw_picture(image)
    if product := _index_by_path().get(parts.path):
        return _answer_product(product)
    return _answer_listing(parts.path, parse_qs(parts.query).get("page", ["1"])[0])


def _answer_product(product: Product) -> Answer | None:
    if product.page == "dead":
        return None
    return STATUS[product.page], HTML, render_product(product) if product.page == "ok" else render_missing(product.path)


def _answer_listing(path: str, page: str) -> Answer:
    category = next((category for category in list_categories() if get_category_path(category) == path), None)
    if category and page.isdecimal() and 1 <= int(page) <= count_pages(category):
        return 200, HTML, render_listing(category, int(page))
    return 404, HTML, render_missing(path)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        found = find_answer(self.path)
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
        """Log nothing: a line for every request would hide the output of the demo."""


def create_server(port: int, host: str = "127.0.0.1") -> ThreadingHTTPServer:
    """Create a bound server; port 0 takes a free port."""
    return ThreadingHTTPServer((host, port), Handler)


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the demo shop on loopback.")
    parser.add_argument("--port", type=int, default=8900)
    port = parser.parse_args().port
    try:
        shop = create_server(port)
    except OSError as error:
        parser.error(f"cannot listen on 127.0.0.1:{port} ({error.strerror}); choose another --port")
    print(f"shop at http://127.0.0.1:{shop.server_port}/", flush=True)
    try:
        shop.serve_forever()
    except KeyboardInterrupt:
        shop.server_close()


if __name__ == "__main__":
    main()
