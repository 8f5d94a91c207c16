"""A Scrapy spider as its users write it: `scrapy runspider shop_spider.py -a url=URL -O rows.jsonl`."""

from __future__ import annotations

from typing import ClassVar

import scrapy


class Shop(scrapy.Spider):
    name = "shop"
    custom_settings: ClassVar = {"CONCURRENT_REQUESTS_PER_DOMAIN": 16, "DOWNLOAD_DELAY": 0, "LOG_LEVEL": "ERROR"}

    def __init__(self, url: str) -> None:
        super().__init__()
        self.start_urls = [url]

    def parse(self, response):
        yield from response.follow_all(css="li.item a", callback=self.parse_product)
        yield from response.follow_all(css="a.next")

    def parse_product(self, response):
        yield {
            "title": response.css("h1::text").get(),
            "price": response.css(".price::text").get(),
            "brand": response.css("td.brand::text").get(),
            "summary": response.css("p.summary::text").get(),
        }
