"""What a site lets a crawler fetch: robots.txt (RFC 9309), with the usual Crawl-delay."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from protego import Protego

from pipelines.fetch.page import Page
from pipelines.fetch.throttle import Refusal
from pipelines.fetch.urls import origin

MAX_ROBOTS = 500 * 1024  # bytes that are read at most (RFC 9309, section 2.5); a fetcher for these files stops there
_LONGEST_DELAY = 60.0  # a site that asks for more would never be done
_MOST_PATTERNS = 5_000  # each costs every address of the site some µs
_LARGE = 16 * 1024  # characters; parsed they take eighty times as much
_AGENT = re.compile(r"(?i)\s*+user[- ]?agent(?:\s*+:|\s(?![^#:]*:(?:\s|#|\Z)))\s*+([^#]*+)")  # as Protego takes it
_OTHERS = "/"  # which is in no crawler's name


@dataclass(frozen=True, slots=True)
class Robots:
    """The rules of one site (scheme, host and port) for one crawler.

    Without `text` everything may be fetched; `refusal` says why nothing may, where that does not depend on the address.
    `unreached`: because the site did not answer.
    """

    agent: str
    text: str | None = None
    refusal: str | None = None
    unreached: bool = False

    def forbids(self, url: str) -> Refusal | None:
        """Return the reason why `url`, an address of the site, may not be fetched; None when it may."""
        if self.refusal is not None:
            return Refusal(self.refusal, forbidden=not self.unreached)
        if self.text is None or _rules(self.text).can_fetch(url, self.agent):
            return None
        return Refusal(f"{robots_url(url)} forbids this address to {self.agent}")

    @property
    def crawl_delay(self) -> float:
        """Seconds that the site wants to lie between two requests; 0 when it does not say."""
        asked = _rules(self.text).crawl_delay(self.agent) if self.text is not None else None
        return min(asked, _LONGEST_DELAY) if asked and asked > 0 else 0.0


def _rules(text: str) -> Protego:
    return _parsed(text) if len(text) <= _LARGE else _parsed_large(text)


_parsed = lru_cache(maxsize=256)(Protego.parse)
_parsed_large = lru_cache(maxsize=8)(Protego.parse)


def robots_url(url: str) -> str:
    """Where the rules for `url`, a canonical address, stand."""
    return f"{origin(url)}/robots.txt"


def unreached(agent: str, reason: str) -> Robots:
    """What a site that did not answer, and why, lets the crawler fetch: nothing."""
    refusal = f"{reason}, so its robots.txt is not known, and nothing may be fetched from the site"
    return Robots(agent, refusal=refusal, unreached=True)


def read_robots(page: Page, user_agent: str) -> Robots:
    """The rules that the fetched robots.txt gives the crawler that calls itself `user_agent`.

    A site that has none (4xx) lets everything be fetched, one that can't be asked (5xx, no answer) nothing
    (RFC 9309, section 2.3.1).
    """
    agent = user_agent.partition("/")[0].strip()
    if page.status is None:
        return unreached(agent, page.error or "no answer")
    if page.status >= 500 or (page.error and not page.body):  # a large file has a beginning
        reason = page.error or f"status {page.status}"
        unread = f"robots.txt could not be read ({reason}), so nothing may be fetched from the site"
        return Robots(agent, refusal=unread)
    if page.status >= 400:
        return Robots(agent)
    text = _concerning(agent, page.body[:MAX_ROBOTS].decode("utf-8-sig", "replace"))
    if _patterns(text) > _MOST_PATTERNS:
        many = f"robots.txt has more than {_MOST_PATTERNS:,} patterns, which are more than are read"
        return Robots(agent, refusal=f"{many}, so nothing may be fetched from the site")
    return Robots(agent, text)


def _concerning(agent: str, text: str) -> str:
    """`text` with all crawlers but `agent` under one name: Protego keeps each rule once for each that it is for."""
    return "\n".join(_renamed(agent, found[1]) if (found := _AGENT.match(line)) else line for line in text.splitlines())


def _renamed(agent: str, named: str) -> str:
    name = named.strip().lower()
    if name and name != "*":
        name = name.replace("*", "")  # as Protego reads it
        name = name if name and name in agent.lower() else _OTHERS
    return f"User-agent: {name}"


def _patterns(text: str) -> int:
    """How many of the rules that concern the crawler have wildcards."""
    count, concerns, naming = 0, False, False
    for line in text.splitlines():
        if named := _AGENT.match(line):
            concerns = (naming and concerns) or named[1].strip() not in ("", _OTHERS)
            naming = True
        elif ":" in (rule := line.partition("#")[0]):
            count += concerns and ("*" in rule or "$" in rule)
            naming = False
    return count
