"""How the commands without a server fetch pages."""

from __future__ import annotations

import os

from pipelines.errors import RunError
from pipelines.fetch import CrawlOptions
from pipelines.fetch.fetcher import build_user_agent


def read_crawl_options() -> CrawlOptions:
    """Return options with the contact of SPINDLE_FETCH_CONTACT in the User-Agent; raise RunError for an invalid one."""
    try:
        return CrawlOptions(user_agent=build_user_agent(os.environ.get("SPINDLE_FETCH_CONTACT")))
    except ValueError as error:
        raise RunError(f"SPINDLE_FETCH_CONTACT: {error}") from error
