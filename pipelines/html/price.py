"""Prices as shops write them."""

from __future__ import annotations

from price_parser.parser import extract_price_text, parse_number


def parse_price(text: str) -> float | None:
    """The first price in `text`, separators read by convention: "1.234,56 €" is 1234.56; None when there is none."""
    written = extract_price_text(text)  # not by Price, which looks for a currency first: up to four times the work
    amount = parse_number(written) if written is not None else None
    return float(amount) if amount is not None else None
