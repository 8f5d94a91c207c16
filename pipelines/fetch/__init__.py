"""Fetching pages over HTTP: libcurl's multi interface, driven by the pass that needs the pages."""

from __future__ import annotations

from pipelines.fetch.fetcher import Fetcher, FetchOptions
from pipelines.fetch.guard import Guard, GuardRefused
from pipelines.fetch.http import HttpFetcher
from pipelines.fetch.page import Page
from pipelines.fetch.urls import canonical_url

__all__ = ["FetchOptions", "Fetcher", "Guard", "GuardRefused", "HttpFetcher", "Page", "canonical_url"]
