"""Pages over HTTP through libcurl, with retries, redirects, host throttling and an address guard."""

from __future__ import annotations

from pipelines.fetch.fetcher import CrawlOptions, Fetcher, FetchOptions
from pipelines.fetch.http import HttpFetcher
from pipelines.fetch.page import Page
from pipelines.fetch.urls import canonical_url

__all__ = ["CrawlOptions", "FetchOptions", "Fetcher", "HttpFetcher", "Page", "canonical_url"]
