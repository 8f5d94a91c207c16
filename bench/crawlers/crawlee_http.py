"""Crawlee's parsel crawler, in its own virtual environment: `python -m bench.crawlers.crawlee_http CRAWL URL`."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from datetime import timedelta

from crawlee import ConcurrencySettings, Request
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import MemoryStorageClient

from bench.crawlers.fields import CONCURRENCY, CRAWLS, Crawl

Row = dict[str, str | None]


async def run(crawl: Crawl, seed: str) -> list[Row]:
    rows: list[Row] = []
    crawler = ParselCrawler(
        storage_client=MemoryStorageClient(),
        concurrency_settings=ConcurrencySettings(
            min_concurrency=CONCURRENCY, desired_concurrency=CONCURRENCY, max_concurrency=CONCURRENCY
        ),
        configure_logging=False,
        use_session_pool=False,
        statistics_log_format="inline",
        request_handler_timeout=timedelta(minutes=5),
    )

    @crawler.router.default_handler
    async def read(context: ParselCrawlingContext) -> None:
        found = {name: context.selector.css(css) for name, css in crawl.fields.items()}
        rows.append({name: each[0].xpath("string()").get() if each else None for name, each in found.items()})
        if crawl.deep:
            await context.enqueue_links(selector=crawl.links)
        elif context.request.url == seed:
            hrefs = context.selector.css(crawl.links).xpath("@href").getall()
            await context.add_requests([Request.from_url(seed.rsplit("/", 1)[0] + "/" + href) for href in hrefs])

    await crawler.run([seed])
    return rows


def main() -> None:
    logging.disable(logging.WARNING)
    began = time.perf_counter()
    rows = asyncio.run(run(CRAWLS[sys.argv[1]], sys.argv[2]))
    print(json.dumps({"rows": len(rows), "seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
