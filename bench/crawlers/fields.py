"""The crawls of all contenders: links to follow, fields to extract, requests in flight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CONCURRENCY = 32


@dataclass(frozen=True, slots=True)
class Crawl:
    """Follow `links` from the seed, or from every page if `deep`, and extract `fields`, CSS selectors by name."""

    links: str
    fields: Mapping[str, str]
    deep: bool
    depth: int = 100


CRAWLS = {
    "docs": Crawl(
        # links inside the documentation are relative; the others have a scheme
        links="a[href]:not([href*='://']):not([href^='mailto:'])",
        fields={
            "title": "title",
            "heading": "h1, h2",
            "paragraph": "p",
            "next": "a[accesskey=n]",
            "up": "a[accesskey=u]",
        },
        deep=True,
    ),
    "catalog": Crawl(
        links="li.item a",
        fields={
            "title": "h1",
            "price": ".price",
            "brand": "td.brand",
            "summary": "p.summary",
            "stock": "span.stock",
        },
        deep=False,
    ),
    "graph": Crawl(
        links="li.item a",
        fields={"title": "h1", "price": ".price", "brand": "td.brand", "summary": "p.summary", "stock": "span.stock"},
        deep=True,
    ),
    "chain": Crawl(
        links="a.next",
        fields={"title": "h1", "price": ".price", "brand": "td.brand", "summary": "p.summary", "stock": "span.stock"},
        deep=True,
        depth=1000,
    ),
}
