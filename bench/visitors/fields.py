"""What every contender does: the pages that are visited and what is read of each, by lexbor from the page's HTML."""

from __future__ import annotations

TABS = 4
FIELDS = {"heading": "h1", "price": "p.price", "made": "ul#made li:last-child"}
CHROMIUM_FLAGS = ["--disable-gpu", "--no-sandbox"]


def addresses(site: str, pages: int) -> list[str]:
    return [f"{site}/page/{number}/{number % 64}.html" for number in range(pages)]
