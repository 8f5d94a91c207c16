"""robots.txt (RFC 9309): the URLs that a site disallows to a crawler, and its Crawl-delay."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from protego import Protego

from pipelines.fetch.page import Page, decode_utf8
from pipelines.fetch.throttle import Refusal
from pipelines.fetch.urls import origin

MAX_ROBOTS = 500 * 1024  # bytes (RFC 9309, section 2.5), also the limit of the request
_MAX_DELAY = 60.0  # seconds; with a longer delay a crawl would never end
_MAX_PATTERNS = 5_000  # each costs some µs for every URL of the site
_LARGE = 16 * 1024  # characters; parsed rules take eighty times as much memory
_AGENT = re.compile(r"(?i)\s*+user[- ]?agent(?:\s*+:|\s(?![^#:]*:(?:\s|#|\Z)))\s*+([^#]*+)")  # as Protego parses it
_OTHER_AGENTS = "/"  # part of no crawler's name


@dataclass(frozen=True, slots=True)
class Robots:
    """The rules of one origin for one crawler.

    Without `text` everything is allowed. `refusal` is the reason why nothing is; `unreached` when that is because the
    site did not answer.
    """

    agent: str
    text: str | None = None
    refusal: str | None = None
    unreached: bool = False

    def find_refusal(self, url: str) -> Refusal | None:
        """Return a refusal unless `url`, a URL of the origin, may be fetched."""
        if self.refusal is not None:
            return Refusal(self.refusal, forbidden=not self.unreached)
        if self.text is None or _parse_rules(self.text).can_fetch(url, self.agent):
            return None
        return Refusal(f"{get_robots_url(url)} forbids this address to {self.agent}")

    @property
    def crawl_delay(self) -> float:
        """The minimum seconds between two requests; 0 without a rule."""
        delay = _parse_rules(self.text).crawl_delay(self.agent) if self.text is not None else None
        return min(delay, _MAX_DELAY) if delay and delay > 0 else 0.0


def _parse_rules(text: str) -> Protego:
    return _parse_small(text) if len(text) <= _LARGE else _parse_large(text)


_parse_small = lru_cache(maxsize=256)(Protego.parse)
_parse_large = lru_cache(maxsize=8)(Protego.parse)


def get_robots_url(url: str) -> str:
    """Return the URL of the robots.txt for a canonical URL."""
    return f"{origin(url)}/robots.txt"


def make_unreached(agent: str, reason: str) -> Robots:
    """Return the rules of a site that did not answer: nothing is allowed."""
    refusal = f"{reason}, so its robots.txt is not known, and nothing may be fetched from the site"
    return Robots(agent, refusal=refusal, unreached=True)


def read_robots(page: Page, user_agent: str) -> Robots:
    """Return the rules of a fetched robots.txt for the crawler with this user agent.

    Without the file (4xx) everything is allowed; after a failure (5xx, no answer) nothing is (RFC 9309, section 2.3.1).
    """
    agent = user_agent.partition("/")[0].strip()
    if page.status is None:
        return make_unreached(agent, page.error or "no answer")
    if page.status >= 500 or (page.error and not page.body):  # of a file that is too large the beginning counts
        reason = page.error or f"status {page.status}"
        refusal = f"robots.txt could not be read ({reason}), so nothing may be fetched from the site"
        return Robots(agent, refusal=refusal)
    if page.status >= 400:
        return Robots(agent)
    text = _rename_other_agents(agent, decode_utf8(page.body[:MAX_ROBOTS]))
    if _count_patterns(text) > _MAX_PATTERNS:
        refusal = f"robots.txt has more than {_MAX_PATTERNS:,} patterns, so nothing may be fetched from the site"
        return Robots(agent, refusal=refusal)
    return Robots(agent, text)


def _rename_other_agents(agent: str, text: str) -> str:
    """Give all other crawlers one name: Protego stores a copy of each rule for every crawler in its group."""
    lines = text.splitlines()
    return "\n".join(_rename_agent(agent, found[1]) if (found := _AGENT.match(line)) else line for line in lines)


def _rename_agent(agent: str, value: str) -> str:
    name = value.strip().lower()
    if name and name != "*":
        name = name.replace("*", "")  # as Protego does
        name = name if name and name in agent.lower() else _OTHER_AGENTS
    return f"User-agent: {name}"


def _count_patterns(text: str) -> int:
    """Count the rules with wildcards that apply to the crawler."""
    count, applies, in_agents = 0, False, False
    for line in text.splitlines():
        if found := _AGENT.match(line):
            applies = (in_agents and applies) or found[1].strip() not in ("", _OTHER_AGENTS)
            in_agents = True
        elif ":" in (rule := line.partition("#")[0]):
            count += applies and ("*" in rule or "$" in rule)
            in_agents = False
    return count
