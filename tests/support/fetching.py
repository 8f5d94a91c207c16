"""Pages as tests fetch them: from loopback, without waiting long, once."""

from __future__ import annotations

from pipelines.fetch import FetchOptions, HttpFetcher, Page

LOOPBACK = ("127.0.0.0/8",)


def options(**changes: object) -> FetchOptions:
    return FetchOptions(**{"allow_networks": LOOPBACK, "backoff": 0.01, "retries": 0, **changes})


def fetch(url: str, **changes: object) -> Page:
    return fetch_all([url], **changes)[0]


def fetch_all(urls: list[str], **changes: object) -> list[Page]:
    """Pages in the order of `urls`."""
    with HttpFetcher(options(**changes)) as fetcher:
        found = {tag: page for page, tag in fetcher.fetch((url, at) for at, url in enumerate(urls))}
    return [found[at] for at in range(len(urls))]
