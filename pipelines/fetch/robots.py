"""What a site lets a crawler fetch: robots.txt (RFC 9309), with the usual Crawl-delay."""

from __future__ import annotations

from dataclasses import dataclass

from ada_url import join_url
from protego import Protego

from pipelines.fetch.page import Page

MAX_ROBOTS = 500 * 1024  # bytes that are read at most (RFC 9309, section 2.5); a fetcher for these files stops there


@dataclass(frozen=True, slots=True)
class Robots:
    """The rules of one site (scheme, host and port) for one crawler.

    `crawl_delay` is in seconds; `refusal` says why nothing may be fetched, where that does not depend on the address.
    """

    agent: str
    rules: Protego | None = None
    crawl_delay: float | None = None
    refusal: str | None = None

    def allows(self, url: str) -> bool:
        """Whether `url`, an address of the site, may be fetched."""
        if self.refusal is not None:
            return False
        return self.rules is None or self.rules.can_fetch(url, self.agent)


def robots_url(url: str) -> str:
    """Where the rules for `url`, a canonical address, stand."""
    return join_url(url, "/robots.txt")


def read_robots(page: Page, user_agent: str) -> Robots:
    """The rules that the fetched robots.txt gives the crawler that calls itself `user_agent`.

    A site that has none (4xx) lets everything be fetched, one that can't be asked (5xx, no answer) nothing
    (RFC 9309, section 2.3.1).
    """
    agent = user_agent.partition("/")[0].strip()
    if page.status is None or page.status >= 500 or (page.error and not page.body):  # a large file has a beginning
        reason = page.error or f"status {page.status}"
        return Robots(
            agent, refusal=f"robots.txt could not be read ({reason}), so nothing may be fetched from the site"
        )
    if page.status >= 400:
        return Robots(agent)
    rules = Protego.parse(page.body[:MAX_ROBOTS].decode("utf-8-sig", "replace"))
    delay = rules.crawl_delay(agent)
    return Robots(agent, rules, delay if delay and delay > 0 else None)
