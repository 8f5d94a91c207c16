"""Crawlee's browser crawler: `python -m bench.visitors.crawlee_browser SITE PAGES CHROMIUM`, in its own environment."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from datetime import timedelta

from crawlee import ConcurrencySettings
from crawlee.crawlers import PlaywrightCrawler, PlaywrightCrawlingContext
from crawlee.storage_clients import MemoryStorageClient
from selectolax.lexbor import LexborHTMLParser

from bench.visitors.fields import CHROMIUM_FLAGS, FIELDS, TABS, list_addresses

Row = dict[str, str | None]


async def run(urls: list[str], chromium: str) -> tuple[list[Row], float]:
    """Return the rows and the seconds from the first page to the last."""
    rows: list[Row] = []
    first = 0.0
    crawler = PlaywrightCrawler(
        storage_client=MemoryStorageClient(),
        browser_type="chromium",
        browser_launch_options={"executable_path": chromium, "args": CHROMIUM_FLAGS},
        fingerprint_generator=None,
        concurrency_settings=ConcurrencySettings(min_concurrency=TABS, desired_concurrency=TABS, max_concurrency=TABS),
        configure_logging=False,
        use_session_pool=False,
        request_handler_timeout=timedelta(minutes=5),
    )

    @crawler.pre_navigation_hook
    async def begin(_: object) -> None:
        nonlocal first
        first = first or time.perf_counter()

    @crawler.router.default_handler
    async def read(context: PlaywrightCrawlingContext) -> None:
        page = LexborHTMLParser(await context.page.content())
        found = {name: page.css_first(selector) for name, selector in FIELDS.items()}
        rows.append({name: node.text() if node else None for name, node in found.items()})

    await crawler.run(urls)
    return rows, time.perf_counter() - first


def main() -> None:
    logging.disable(logging.WARNING)
    began = time.perf_counter()
    rows, seconds = asyncio.run(run(list_addresses(sys.argv[1], int(sys.argv[2])), sys.argv[3]))
    start = time.perf_counter() - began - seconds
    made = sum(row["made"] is not None for row in rows)
    print(json.dumps({"rows": made, "start": start, "seconds": seconds}))


if __name__ == "__main__":
    main()
