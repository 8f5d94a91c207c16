from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pipelines.browser.actions import Action, Browsing, read_action
from pipelines.browser.chromium import shut_down
from pipelines.browser.fetcher import BrowserFetcher
from pipelines.fetch import FetchOptions, Page
from tests.pipelines.browser.strange import Strange, strange

Visit = Callable[..., Page]
OPTIONS = FetchOptions(allow_networks=("127.0.0.0/8",), total_timeout=60, retries=0, backoff=0.01)


@pytest.fixture(scope="session", autouse=True)
def _no_browser_stays() -> Iterator[None]:
    yield
    shut_down()


@pytest.fixture(scope="module")
def strange_site() -> Iterator[Strange]:
    with strange() as site:
        yield site


def visited(
    url: str, *traces: dict[str, Any] | Action, options: FetchOptions = OPTIONS, images: bool = False, again: int = 1
) -> list[Page]:
    """The pages of `again` visits of one address, in a fetcher of their own, by this process's Chromium."""
    actions = tuple(read_action(each) for each in traces)
    with BrowserFetcher(options, Browsing(actions, images)) as fetcher:  # pyright: ignore[reportArgumentType]
        return [page for _ in range(again) for page, _ in fetcher.fetch([(url, None)])]
