"""Pages as this process's Chromium renders them."""

from __future__ import annotations

from typing import Any

from pipelines.browser.actions import Action, Browsing, read_action
from pipelines.browser.fetcher import BrowserFetcher
from pipelines.fetch import CrawlOptions, Page

OPTIONS = CrawlOptions(allow_networks=("127.0.0.0/8",), total_timeout=60, retries=0, backoff=0.01)


def do(action: str, **params: Any) -> dict[str, Any]:
    """An action of a trace."""
    return {"action": action, "params": params}


def visited(
    url: str, *traces: dict[str, Any] | Action, options: CrawlOptions = OPTIONS, images: bool = False, again: int = 1
) -> list[Page]:
    """The pages of `again` visits of one address, in a fetcher of their own, by this process's Chromium."""
    actions = tuple(read_action(each) for each in traces)
    with BrowserFetcher(options, Browsing(actions, images)) as fetcher:  # pyright: ignore[reportArgumentType]
        return [page for _ in range(again) for page, _ in fetcher.fetch([(url, None)])]
