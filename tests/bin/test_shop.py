"""The demo shop: what a crawler finds in it, counted by an independent walk."""

from __future__ import annotations

import threading
from collections.abc import Generator

import httpx
import pytest
from selectolax.lexbor import LexborHTMLParser

from examples.shop.catalog import list_products
from examples.shop.site import create_server


@pytest.fixture(scope="module")
def shop() -> Generator[httpx.Client]:
    site = create_server(0)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    with httpx.Client(base_url=f"http://127.0.0.1:{site.server_port}", timeout=60) as client:
        yield client
    site.shutdown()
    site.server_close()


def links(page: str, selector: str) -> list[str]:
    return [str(node.attributes["href"]) for node in LexborHTMLParser(page).css(selector)]


def listings(shop: httpx.Client) -> dict[str, str]:
    """Every listing page by path, found by following categories and pagination."""
    pages: dict[str, str] = {}
    queue = links(shop.get("/").text, "nav.categories a")
    while queue:
        path = queue.pop()
        pages[path] = shop.get(path).text
        queue += [link for link in links(pages[path], "a.next") if link not in pages]
    return pages


def test_pagination_leads_to_every_product(shop: httpx.Client) -> None:
    pages = listings(shop)
    cards = [link for page in pages.values() for link in links(page, "article.card a.title")]
    assert len(pages) == 18
    assert sorted(cards) == sorted(product.path for product in list_products())


def test_120_product_pages_match_the_catalog(shop: httpx.Client) -> None:
    sold = [product for product in list_products() if product.page == "ok"]
    assert len(sold) == 120
    for product in sold:
        page = LexborHTMLParser(shop.get(product.path).text)
        shown = [node.text() for node in page.css("h1, .product .price, td.sku")]
        assert shown == [product.name, product.shown_price, product.sku]


@pytest.mark.parametrize(("page", "status"), [("missing", 404), ("gone", 410)])
def test_some_cards_lead_to_broken_links(shop: httpx.Client, page: str, status: int) -> None:
    broken = [product for product in list_products() if product.page == page]
    assert [shop.get(product.path).status_code for product in broken] == [status] * 2


def test_a_dead_page_hangs_up_without_an_answer(shop: httpx.Client) -> None:
    (dead,) = (product for product in list_products() if product.page == "dead")
    with pytest.raises(httpx.RemoteProtocolError):
        shop.get(dead.path)


@pytest.mark.parametrize(
    ("sku", "shown"),
    [
        ("KI-1007", "189,00 €"),
        ("LI-3013", "1.289,00 €"),
        ("OU-5001", "1\N{NO-BREAK SPACE}899,00 kr"),
        ("BO-6020", "$1,049.00"),
        ("KI-1021", "CHF 1'249.00"),
        ("KI-1014", "¥14,500"),
        ("KI-1001", "£28.50"),
    ],
)
def test_prices_are_written_as_in_their_country(sku: str, shown: str) -> None:
    assert {product.sku: product.shown_price for product in list_products()}[sku] == shown


def test_pictures_and_unknown_paths(shop: httpx.Client) -> None:
    assert shop.get(list_products()[0].image).headers["content-type"] == "image/svg+xml"
    assert shop.get("/gift-cards").status_code == 404
    assert shop.get("/category/books?page=99").status_code == 404
