"""The pages to visit and the extraction from their HTML with lexbor, the same for all contenders."""

from __future__ import annotations

TABS = 4
FIELDS = {"heading": "h1", "price": "p.price", "made": "ul#made li:last-child"}
CHROMIUM_FLAGS = ["--disable-gpu", "--no-sandbox"]


def list_addresses(site: str, pages: int) -> list[str]:
    return [f"{site}/page/{number}/{number % 64}.html" for number in range(pages)]
