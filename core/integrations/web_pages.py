"""Preview of one web page, fetched like pages of pipelines: through the guard and within limits."""

from __future__ import annotations

from urllib.parse import urlsplit

from core.errors import BadInput
from core.infra.settings import Settings
from pipelines.fetch import FetchOptions, HttpFetcher, Page, canonical_url
from pipelines.fetch.fetcher import build_user_agent
from pipelines.http_client.client import UNKNOWN_HOST, is_host_name

MAX_BODY = 5 * 2**20
TIMEOUT_SECONDS = 20.0
LOOKUP_FAILURES = ("refused: ", "could not find the host ")
HTML_TYPES = ("text/html", "application/xhtml+xml")


def fetch_web_page(settings: Settings, url: str) -> Page:
    """Fetch a complete HTML page; raise BadInput with the reason when that fails."""
    address = canonical_url(url)
    if address is None:
        raise BadInput("This is not the URL of a web page.", path="url")
    options = FetchOptions(
        total_timeout=TIMEOUT_SECONDS,
        max_body=MAX_BODY,
        retries=0,
        allow_networks=settings.fetch.allow_networks,
        own_endpoints=settings.own_endpoints,
        user_agent=build_user_agent(settings.fetch.contact),
    )
    with HttpFetcher(options) as fetcher:
        page, _ = next(fetcher.fetch([(address, None)]))
    if page.error and page.error.startswith(LOOKUP_FAILURES) and is_host_name(urlsplit(page.url).hostname or ""):
        sentence = f"The page could not be fetched from {urlsplit(page.url).hostname}: {UNKNOWN_HOST}."
        raise BadInput(sentence, code="fetch-failed", path="url")
    if not page.ok:
        sentence = f"The page could not be fetched: {page.error or f'it answered {page.status}'}."
        raise BadInput(sentence, code="fetch-failed", path="url")
    if page.content_type not in HTML_TYPES:
        sentence = f"The page is not HTML but {page.content_type or 'of no known type'}."
        raise BadInput(sentence, code="not-html", path="url")
    return page
