"""Shops whose products a search engine finds: pages with metadata, and images of which most show the product."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.plugins.ean_image_sourcing.images import make_photo
from tests.support.search_engines import SearchServer
from tests.support.site import Site

_PICTURES = 50  # that are drawn: drawing takes longer than everything else


def make_ean(number: int) -> str:
    """Return a valid EAN of 13 digits."""
    digits = f"{400_000_000_000 + number:012d}"
    weighted = sum(int(digit) * (3 if at % 2 == 0 else 1) for at, digit in enumerate(reversed(digits)))
    return f"{digits}{-weighted % 10}"


def serve_products(site: Site, search: SearchServer, eans: Sequence[str], results: int) -> None:
    """Serve so many results of each EAN: the last image shows another product, and the first of every fifth is gone."""
    photos = [make_photo(seed, quality=60) for seed in range(min(len(eans), _PICTURES) + 1)]
    pages: dict[str, str | bytes | int] = {}
    for number, ean in enumerate(eans):
        for rank in range(results):
            product = {"@type": "Product", "name": f"Pen {number}", "brand": "Stabilo"}
            script = f"<script type='application/ld+json'>{json.dumps(product)}</script>"
            pages[f"/p/{ean}/{rank}"] = f"<html><h1>Pen {number}</h1>{script}</html>"
            is_other, is_gone = rank == results - 1, rank == 0 and number % 5 == 0
            photo = photos[(number + is_other) % len(photos)]
            # bytes after the image make each file another one
            pages[f"/i/{ean}/{rank}.jpg"] = 404 if is_gone else photo + f"{ean}/{rank}".encode()
        search.results[ean] = [
            (f"{site.url}/p/{ean}/{rank}", f"Pen {number}", "A pen", f"{site.url}/i/{ean}/{rank}.jpg")
            for rank in range(results)
        ]
    site.serve(pages)
