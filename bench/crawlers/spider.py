"""Scrapy, in its own virtual environment: `python -m bench.crawlers.spider CRAWL URL`."""

from __future__ import annotations

import json
import sys
import time

import scrapy
from scrapy.crawler import CrawlerProcess

from bench.crawlers.fields import CONCURRENCY, CRAWLS

SETTINGS = {
    "CONCURRENT_REQUESTS": CONCURRENCY,
    "CONCURRENT_REQUESTS_PER_DOMAIN": CONCURRENCY,
    "DOWNLOAD_DELAY": 0,
    "ROBOTSTXT_OBEY": False,
    "TELNETCONSOLE_ENABLED": False,
    "HTTPERROR_ALLOW_ALL": True,
    "LOG_LEVEL": "ERROR",
}


class Crawler(scrapy.Spider):
    name = "crawler"

    def __init__(self, crawl: str, url: str) -> None:
        super().__init__()
        self.crawl, self.url = CRAWLS[crawl], url
        self.rows: list[dict[str, str | None]] = []

    async def start(self):
        # start_urls would be fetched again when a link leads back to them
        yield scrapy.Request(self.url)

    def parse(self, response):
        if response.status >= 400:
            self.rows.append(dict.fromkeys(self.crawl.fields))
            return
        texts = {name: response.css(selector) for name, selector in self.crawl.fields.items()}
        self.rows.append({name: found[0].xpath("string()").get() if found else None for name, found in texts.items()})
        if self.crawl.deep or response.url == self.url:
            for link in response.css(self.crawl.links):
                yield response.follow(link)

    def closed(self, reason: str) -> None:
        started = self.crawler.stats.get_value("start_time").timestamp()
        print(json.dumps({"rows": len(self.rows), "seconds": time.time() - started}), flush=True)


def main() -> None:
    process = CrawlerProcess(SETTINGS)
    process.crawl(Crawler, sys.argv[1], sys.argv[2])
    process.start()


if __name__ == "__main__":
    main()
