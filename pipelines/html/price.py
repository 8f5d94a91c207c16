"""Prices as shops write them."""

from __future__ import annotations

from price_parser import Price


def parse_price(text: str) -> float | None:
    """The first price in `text`, separators read by convention: "1.234,56 €" is 1234.56; None when there is none."""
    return Price.fromstring(text).amount_float
