"""Extraction of the bare loops: the first matches of the fields and the links, with lexbor."""

from __future__ import annotations

from urllib.parse import urldefrag, urljoin

from selectolax.lexbor import LexborHTMLParser

from bench.crawlers.fields import Crawl

Row = dict[str, str | None]


def parse_page(crawl: Crawl, url: str, body: bytes, is_seed: bool) -> tuple[Row, list[str]]:
    """Return the page's row, and its links if they are followed; an empty body means a failed fetch."""
    if not body:
        return dict.fromkeys(crawl.fields), []
    page = LexborHTMLParser(body)
    found = {name: page.css_first(selector) for name, selector in crawl.fields.items()}
    row = {name: node.text() if node else None for name, node in found.items()}
    if not crawl.deep and not is_seed:
        return row, []
    return row, [urldefrag(urljoin(url, node.attributes["href"] or ""))[0] for node in page.css(crawl.links)]
