"""One page for a person to look at, fetched as pipelines fetch: through the guard, within limits."""

from __future__ import annotations

from core.errors import BadInput
from core.settings import Settings
from pipelines.fetch import FetchOptions, HttpFetcher, Page, canonical_url

MAX_BODY = 5 * 2**20
SECONDS = 20.0
KINDS = ("text/html", "application/xhtml+xml")


def fetch_html(settings: Settings, url: str) -> Page:
    """The page at `url`, which is HTML and came whole; raises BadInput with the reason why not."""
    address = canonical_url(url)
    if address is None:
        raise BadInput("This is not the address of a web page.")
    options = FetchOptions(
        total_timeout=SECONDS, max_body=MAX_BODY, retries=0, allow_networks=settings.fetch_allow_networks
    )
    with HttpFetcher(options) as fetcher:
        page, _ = next(fetcher.fetch([(address, None)]))
    if not page.ok:
        raise BadInput(f"The page could not be fetched: {page.error or f'it answered {page.status}'}.")
    if page.content_type not in KINDS:
        raise BadInput(f"The page is not HTML but {page.content_type or 'of no known type'}.")
    return page
