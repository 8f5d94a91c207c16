"""Prices as shops write them."""

from __future__ import annotations

import re

from price_parser.parser import extract_price_text, parse_number

_AROUND = 100  # characters on each side: what reads them takes the square of their number
_LONGEST = 50  # characters of a number
_NUMBER = re.compile(rf"(?<!\d)\.?\d(?!\d*%).{{0,{_AROUND}}}(?!\d)", re.DOTALL)  # none that a % follows, as in a price
_FREE = re.compile("free", re.IGNORECASE)


def parse_price(text: str) -> float | None:
    """The first price in `text`, separators read by convention: "1.234,56 €" is 1234.56; None when there is none."""
    written = extract_price_text(price_part(text))  # not by Price, which looks for a currency first: four times as long
    if written is None or len(written) > _LONGEST:
        return None
    amount = parse_number(written)
    return float(amount) if amount is not None else None


def price_part(text: str) -> str:
    """Where the price and its currency stand: of a long text, what is around its first number; empty without one."""
    if len(text) <= 2 * _AROUND:
        return text
    found = _NUMBER.search(text) or _FREE.search(text)
    return text[max(found.start() - _AROUND, 0) : found.end()] if found else ""
