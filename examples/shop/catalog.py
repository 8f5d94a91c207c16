"""The products of the shop, one for each row of products.csv."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROWS = Path(__file__).with_name("products.csv")
CARDS_PER_PAGE = 8

# prices in the format of each currency: separators, position of the sign, decimals
PRICE_FORMATS: dict[str, Callable[[float], str]] = {
    "GBP": lambda amount: f"£{amount:,.2f}",
    "USD": lambda amount: f"${amount:,.2f}",
    "JPY": lambda amount: f"¥{amount:,.0f}",
    "CHF": lambda amount: "CHF " + f"{amount:,.2f}".replace(",", "'"),
    "EUR": lambda amount: f"{amount:,.2f}".translate(str.maketrans(",.", ".,")) + " €",
    "SEK": lambda amount: f"{amount:,.2f}".translate(str.maketrans(",.", "\N{NO-BREAK SPACE},")) + " kr",
}


@dataclass(frozen=True, slots=True)
class Product:
    """A product; `page` is the answer of its page: ok, missing (404), gone (410) or dead (no answer)."""

    sku: str
    name: str
    category: str
    maker: str
    price: float
    currency: str
    stock: int
    material: str
    page: str

    @property
    def path(self) -> str:
        return f"/product/{create_slug(self.name)}-{self.sku.lower()}"

    @property
    def image(self) -> str:
        return f"/images/{self.sku.lower()}.svg"

    @property
    def shown_price(self) -> str:
        return PRICE_FORMATS[self.currency](self.price)

    @property
    def availability(self) -> str:
        return f"In stock ({self.stock} available)" if self.stock else "Sold out"


@cache
def list_products() -> tuple[Product, ...]:
    with ROWS.open(encoding="utf-8", newline="") as rows:
        return tuple(_parse_product(row) for row in csv.DictReader(rows))


def _parse_product(row: dict[str, str]) -> Product:
    return Product(
        row["sku"],
        row["name"],
        row["category"],
        row["maker"],
        float(row["price"]),
        row["currency"],
        int(row["stock"]),
        row["material"],
        row["page"],
    )


@cache
def list_categories() -> tuple[str, ...]:
    return tuple(dict.fromkeys(product.category for product in list_products()))


def list_of_category(category: str) -> tuple[Product, ...]:
    return tuple(product for product in list_products() if product.category == category)


def create_slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
