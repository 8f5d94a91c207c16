"""The site of the examples for people who know Scrapy: `python -m tests.support.crawl_site` serves it on port 8910."""

from __future__ import annotations

import json
import struct
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookies import SimpleCookie
from http.server import ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.support.servers import Handler, serve

PORT = 8910
PAGE_SIZE = 2


@dataclass(frozen=True)
class Product:
    """A product as its page shows it; `sizes` are pairs of a size and its price."""

    sku: str
    name: str
    price: str
    kind: str
    released: str
    weight: str
    ean: str
    sizes: tuple[tuple[str, str], ...] = ()


PRODUCTS = (
    Product("S1", "Lamp", "€ 1.299,00", "light", "05.03.2024", "1,50", "4006381333931", (("S", "€ 1.299,00"),)),
    Product("S2", "Cup", "€ 4,50", "table", "17.11.2023", "0,25", "4006381333948", (("S", "€ 4,50"), ("L", "€ 6,00"))),
    Product("S3", "Sticker", "Free", "paper", "01.01.2025", "0,01", "4006381333955"),
    Product("S4", "Chair", "€ 89,90", "room", "30.06.2022", "4,00", "4006381333962", (("M", "€ 89,90"),)),
    Product("S5", "Bowl", "€ 12,00", "table", "unknown", "0,75", "4006381333979"),
)
NEWS = (("one", "First news"), ("two", "Second news"))
REVIEWS = (("S1", "Bright"), ("S2", "Solid"), ("S1", "Bright"), ("S2", "Holds coffee"))
GREETINGS = {
    "latin-1": ("text/html; charset=iso-8859-1", "Café".encode("latin-1")),
    "windows-1251": ("text/html", '<meta charset="windows-1251">Привет'.encode("cp1251")),
    "shift-jis": (
        "text/html",
        '<meta http-equiv=content-type content="text/html; charset=Shift_JIS">茶碗'.encode("sjis"),
    ),
    "utf-16": ("text/html", "Größe".encode("utf-16")),
}
USER, PASSWORD = "ann", "s3cret"


class CrawlSite:
    """Answers requests and counts them by path, with the query; tests change its other attributes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: Counter[str] = Counter()
        self.news = dict(NEWS)
        self.products = PRODUCTS
        self.failures = {"/flaky/1": 3, "/flaky/2": 0}  # answers with status 500 that are left
        self._pages: dict[str, Callable[[Handler, dict[str, str]], None]] = {
            "": self._answer_home,
            "catalogue": self._answer_catalogue,
            "products": self._answer_product,
            "images": lambda handler, _: handler.respond(200, draw_picture(handler.path), "image/png"),
            "sheets": lambda handler, _: handler.respond(200, f"%PDF-1.4 {handler.path}", "application/pdf"),
            "sitemap.xml": self._answer_sitemap,
            "feed.rss": self._answer_feed,
            "api": self._answer_api,
            "login": self._answer_login,
            "orders": self._answer_orders,
            "prices": self._answer_prices,
            "reviews": self._answer_reviews,
            "news": self._answer_news,
            "app": self._answer_app,
            "flaky": self._answer_flaky,
            "echo": self._answer_echo,
            "greetings": self._answer_greeting,
        }

    def answer(self, handler: Handler) -> None:
        address = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        answer = self._pages.get(address.path.split("/")[1])
        if address.path != "/robots.txt":
            self.requests[handler.path] += 1
        if answer is None:
            handler.respond(404, "<h1>no such page</h1>")
        else:
            answer(handler, query)

    def _answer_home(self, handler: Handler, _: dict[str, str]) -> None:
        respond(
            handler,
            "<h1>Shop</h1><nav><a href=/catalogue>all</a><a href=/news>news</a><a href=/flaky>flaky</a>"
            "<a href=http://elsewhere.invalid/>partner</a><a href=/catalogue?print=1>print</a></nav>",
        )

    def _answer_catalogue(self, handler: Handler, query: dict[str, str]) -> None:
        page = int(query.get("page", "1"))
        shown = self.products[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
        items = "".join(
            f"<li class=product><a class=name href=/products/{each.sku}>{each.name}</a> <b class=price>{each.price}</b>"
            for each in shown
        )
        more = (
            f"<a class=next href=/catalogue?page={page + 1}>next</a>" if page * PAGE_SIZE < len(self.products) else ""
        )
        respond(handler, f"<h1>Catalogue</h1><ul>{items}</ul>{more}")

    def _answer_product(self, handler: Handler, _: dict[str, str]) -> None:
        product = next((each for each in PRODUCTS if handler.path == f"/products/{each.sku}"), None)
        if product is None:
            handler.respond(404, "<h1>no such product</h1>")
            return
        sizes = "".join(f"<li class=size data-size={size}>{size}: <b>{price}</b></li>" for size, price in product.sizes)
        respond(
            handler,
            f"<h1>{product.name}</h1><p class=price>{product.price}</p><p class=sku>{product.sku}</p>"
            f"<p class=details>EAN {product.ean}, weight {product.weight} kg</p>"
            f"<p class=released>{product.released}</p><p class=kind>{product.kind}</p><ul>{sizes}</ul>"
            f"<img src=/images/{product.sku}.png><img src=/images/back.png>"
            f"<a class=sheet href=/sheets/{product.sku}.pdf>data sheet</a>",
        )

    def _answer_sitemap(self, handler: Handler, _: dict[str, str]) -> None:
        pages = [*(f"/products/{each.sku}" for each in PRODUCTS), "/news"]
        locations = "".join(
            f"<url><loc>{self.url}{path}</loc><lastmod>2025-0{number}-01</lastmod></url>"
            for number, path in enumerate(pages, 1)
        )
        namespace = "http://www.sitemaps.org/schemas/sitemap/0.9"
        handler.respond(200, f'<urlset xmlns="{namespace}">{locations}</urlset>', "application/xml")

    def _answer_feed(self, handler: Handler, _: dict[str, str]) -> None:
        items = "".join(
            f"<item><title>{title}</title><link>{self.url}/news/{name}</link>"
            f"<pubDate>Mon, 0{number} Sep 2025 08:00:00 GMT</pubDate></item>"
            for number, (name, title) in enumerate(NEWS, 1)
        )
        handler.respond(200, f"<rss version='2.0'><channel>{items}</channel></rss>", "application/rss+xml")

    def _answer_api(self, handler: Handler, query: dict[str, str]) -> None:
        after = int(query.get("after", "0"))
        items = [
            {"sku": each.sku, "name": each.name, "rating": 4.5 - number, "reviews": number, "new": number == 0}
            for number, each in enumerate(PRODUCTS)
        ]
        following = after + PAGE_SIZE if after + PAGE_SIZE < len(items) else None
        answer = {"items": items[after : after + PAGE_SIZE], "cursor": following}
        handler.respond(200, json.dumps(answer), "application/json")

    def _answer_login(self, handler: Handler, _: dict[str, str]) -> None:
        """Give each visitor a cookie with a token in the form; accept a form with the visitor's own token alone."""
        visitor = SimpleCookie(handler.headers.get("Cookie", "")).get("visitor")
        if handler.command == "GET":
            name = visitor.value if visitor else f"v{time.monotonic_ns()}"
            form = f"<form method=post><input type=hidden name=csrf value=token-{name}><input name=password></form>"
            handler.respond(200, form, Set_Cookie=f"visitor={name}; Path=/")
            return
        sent = {name: values[0] for name, values in parse_qs(handler.read_body().decode()).items()}
        if visitor is None or sent != {"user": USER, "password": PASSWORD, "csrf": f"token-{visitor.value}"}:
            respond(handler, "<h1>Sign in</h1><p class=error>Wrong password</p>")
        else:
            handler.respond(302, Location="/orders", Set_Cookie=f"member={visitor.value}; Path=/; HttpOnly")

    def _answer_orders(self, handler: Handler, _: dict[str, str]) -> None:
        member = SimpleCookie(handler.headers.get("Cookie", "")).get("member")
        if member is None:
            respond(handler, "<h1>Sign in</h1>")
        elif handler.path == "/orders":
            respond(handler, "<h1>Orders</h1><a class=order href=/orders/7>7</a><a class=order href=/orders/8>8</a>")
        else:
            number = handler.path.rpartition("/")[2]
            respond(handler, f"<h1>Order {number}</h1><p class=total>€ {number},50</p>")

    def _answer_prices(self, handler: Handler, _: dict[str, str]) -> None:
        rows = "".join(
            f"<tr><td>{each.sku}</td><td>{each.name}</td><td>{each.price}</td></tr>" for each in PRODUCTS[:3]
        )
        head = "<tr><th>Number</th><th>Name</th><th>Price</th></tr>"
        respond(handler, f"<table id=menu><tr><td>no</td></tr></table><table id=prices>{head}{rows}</table>")

    def _answer_reviews(self, handler: Handler, _: dict[str, str]) -> None:
        items = "".join(f"<li class=review data-sku={sku}>{text}</li>" for sku, text in REVIEWS)
        respond(handler, f"<ul>{items}</ul>")

    def _answer_news(self, handler: Handler, _: dict[str, str]) -> None:
        name = handler.path.partition("/news")[2].strip("/")
        if not name:
            links = "".join(f"<a class=item href=/news/{each}>{each}</a>" for each in self.news)
            respond(handler, f"<h1>News</h1>{links}")
        elif name in self.news:
            respond(handler, f"<h1>{self.news[name]}</h1>")
        else:
            handler.respond(404)

    def _answer_app(self, handler: Handler, _: dict[str, str]) -> None:
        respond(
            handler,
            "<ul></ul><button>more</button><script>"
            "let cursor = 0; async function load() {"
            " const page = await (await fetch('/api/products?after=' + cursor)).json(); cursor = page.cursor;"
            " for (const each of page.items) { const item = document.createElement('li');"
            " item.textContent = each.name; document.querySelector('ul').append(item); } }"
            "document.querySelector('button').onclick = load; load();</script>",
        )

    def _answer_flaky(self, handler: Handler, _: dict[str, str]) -> None:
        if handler.path == "/flaky":
            links = "".join(f"<a class=flaky href=/flaky/{number}>{number}</a>" for number in (1, 2))
            respond(handler, f"<h1>Flaky</h1>{links}")
            return
        left = self.failures.get(handler.path, 0)
        self.failures[handler.path] = max(0, left - 1)
        handler.respond(500 if left else 200, f"<h1>Page {handler.path[-1]}</h1>")

    def _answer_echo(self, handler: Handler, _: dict[str, str]) -> None:
        names = ("User-Agent", "Accept-Language", "X-Api-Version", "Cookie")
        answer = {name: handler.headers.get(name) for name in names}
        handler.respond(200, json.dumps(answer), "application/json")

    def _answer_greeting(self, handler: Handler, _: dict[str, str]) -> None:
        name = handler.path.partition("/greetings")[2].strip("/")
        if name in GREETINGS:
            media_type, body = GREETINGS[name]
            handler.respond(200, body, media_type)
            return
        respond(handler, "".join(f"<a href=/greetings/{each}>{each}</a>" for each in GREETINGS))


def respond(handler: Handler, body: str) -> None:
    handler.respond(200, body, "text/html; charset=utf-8")


def draw_picture(name: str) -> bytes:
    """Return a PNG of one pixel, whose grey depends on the name."""

    def pack(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixel = zlib.compress(b"\0" + bytes([zlib.crc32(name.encode()) % 256]))
    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + pack(b"IHDR", header) + pack(b"IDAT", pixel) + pack(b"IEND", b"")


def make_handler(get_site: Callable[[], CrawlSite]) -> type[Handler]:
    class CrawlHandler(Handler):
        def do_GET(self) -> None:
            get_site().answer(self)

        do_POST = do_GET

    return CrawlHandler


@contextmanager
def serve_crawl_site() -> Generator[CrawlSite]:
    with serve(make_handler(lambda: site)) as url:
        site = CrawlSite(url)
        yield site


def main() -> None:
    site = CrawlSite(f"http://127.0.0.1:{PORT}")
    sys.stdout.write(f"{site.url} until Ctrl-C\n")
    ThreadingHTTPServer(("127.0.0.1", PORT), make_handler(lambda: site)).serve_forever()


if __name__ == "__main__":
    main()
