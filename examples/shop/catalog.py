"""What the shop sells: products.csv, one row a product."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROWS = Path(__file__).with_name("products.csv")
CARDS_PER_PAGE = 8

# How each currency is written in the shops of its country: separators, place of the sign, decimals.
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
    """One product; `page` says how its page answers: ok, missing (404), gone (410), dead (no answer at all)."""

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
        return f"/product/{slug(self.name)}-{self.sku.lower()}"

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
def products() -> tuple[Product, ...]:
    with ROWS.open(encoding="utf-8", newline="") as rows:
        return tuple(_product(row) for row in csv.DictReader(rows))


def _product(row: dict[str, str]) -> Product:
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
def categories() -> tuple[str, ...]:
    return tuple(dict.fromkeys(product.category for product in products()))


def of_category(category: str) -> tuple[Product, ...]:
    return tuple(product for product in products() if product.category == category)


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
