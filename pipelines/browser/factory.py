"""The fetcher for the pages of a stage: the browser's, or that of plain HTTP."""

from __future__ import annotations

import threading

from pipelines.browser.actions import Browsing
from pipelines.coordination.messages import Endpoint
from pipelines.fetch import Fetcher, FetchOptions, HttpFetcher
from pipelines.fetch.fetcher import PageCache
from pipelines.fetch.session import Session
from pipelines.fetch.throttle import HostThrottle


def create_fetcher(
    options: FetchOptions,
    browsing: Browsing | None,
    throttle: HostThrottle,
    cache: PageCache | None,
    session: Session | None = None,
    stop: threading.Event | None = None,
    endpoint: Endpoint | None = None,
) -> Fetcher:
    """Return a fetcher until `stop` is set: in the browser as `browsing` says, or by plain HTTP without it.

    Prompts in the browser get their steps from the run's coordinator at `endpoint`.
    """
    if browsing is None:
        return HttpFetcher(options, throttle, cache, session, stop)
    from pipelines.browser.fetcher import BrowserFetcher  # Playwright loads slowly

    return BrowserFetcher(
        options, browsing, throttle=throttle, cache=cache, session=session, stop=stop, endpoint=endpoint
    )
