"""One page for a person to look at, fetched as pipelines fetch: through the guard, within limits."""

from __future__ import annotations

from urllib.parse import urlsplit

from core.errors import BadInput
from core.infra.http_client import NO_HOST, is_name
from core.infra.settings import Settings
from pipelines.fetch import FetchOptions, HttpFetcher, Page, canonical_url

MAX_BODY = 5 * 2**20
SECONDS = 20.0
LOOK_UPS = ("refused: ", "could not find the host ")
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
    if page.error and page.error.startswith(LOOK_UPS) and is_name(urlsplit(page.url).hostname or ""):
        raise BadInput(f"The page could not be fetched from {urlsplit(page.url).hostname}: {NO_HOST}.")
    if not page.ok:
        raise BadInput(f"The page could not be fetched: {page.error or f'it answered {page.status}'}.")
    if page.content_type not in KINDS:
        raise BadInput(f"The page is not HTML but {page.content_type or 'of no known type'}.")
    return page
