"""aiohttp on uvloop with lexbor, in its own virtual environment: `python -m bench.crawlers.loop CRAWL URL`."""

from __future__ import annotations

import asyncio
import json
import sys
import time

import aiohttp
import uvloop

from bench.crawlers.fields import CONCURRENCY, CRAWLS, Crawl
from bench.crawlers.lexbor import Row, parse_page


async def run(crawl: Crawl, seed: str) -> list[Row]:
    waiting: asyncio.Queue[str] = asyncio.Queue()
    waiting.put_nowait(seed)
    seen, rows = {seed}, []

    async def fetch_pages(session: aiohttp.ClientSession) -> None:
        while True:
            url = await waiting.get()
            async with session.get(url) as answer:
                body = await answer.read() if answer.status < 400 else b""
            row, links = parse_page(crawl, url, body, url == seed)
            rows.append(row)
            for link in links:
                if link not in seen:
                    seen.add(link)
                    waiting.put_nowait(link)
            waiting.task_done()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONCURRENCY)) as session:
        workers = [asyncio.create_task(fetch_pages(session)) for _ in range(CONCURRENCY)]
        await waiting.join()
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return rows


def main() -> None:
    began = time.perf_counter()
    rows = uvloop.run(run(CRAWLS[sys.argv[1]], sys.argv[2]))
    print(json.dumps({"rows": len(rows), "seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
