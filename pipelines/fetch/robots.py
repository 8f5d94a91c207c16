"""robots.txt (RFC 9309): the URLs that a site disallows to a crawler, and its Crawl-delay."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from protego import Protego

from pipelines.fetch.page import Page, find_bom
from pipelines.fetch.throttle import Refusal
from pipelines.fetch.urls import origin

MAX_ROBOTS = 500 * 1024  # bytes (RFC 9309, section 2.5), also the limit of the request
_MAX_DELAY = 60.0  # seconds; with a longer delay a crawl would never end
_MAX_PATTERNS = 5_000  # each costs some µs for every URL of the site
_LARGE = 16 * 1024  # characters; parsed rules take eighty times as much memory
# the lines that Protego reads, with the spellings that it takes for them
_LINE = re.compile(
    r"(?i)\s*+(?:(user[- ]?agent)|(allow|diss?al?low|diasllow|disallaw)|(crawl[- ]delay))"
    r"(?:\s*+:|\s(?![^#:]*+:(?:\s|\Z))|\s*+\Z)\s*+([^#]*+)"
)
_NOBODY = "/"  # no crawler's name
_TOKEN = re.compile(r"[\w.-]+")
_COMPATIBLE = re.compile(r"(?i)\bcompatible;\s*+(?!MSIE\b)([\w.-]++)")
_COMMENT = re.compile(r"\([^()]*+\)")
_PRODUCT = re.compile(r"([^\s/]++)(?:/\S*+)?")
# what user agents begin with that also name a browser
_BROWSERS = frozenset(
    ("mozilla", "applewebkit", "gecko", "chrome", "safari", "firefox", "version", "mobile", "edg", "opr")
)
_ESCAPES = re.compile(r"(?i)(?:%[89a-f][0-9a-f])+")
_RAW_BYTES = {0xDC00 + byte: 0xF700 + byte for byte in range(0x80, 0x100)}  # from surrogates to private use


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
        if self.text is None or _parse_rules(self.text).can_fetch(_keep_bytes(url), self.agent):
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
    agent = find_product_token(user_agent)
    if page.status is None:
        return make_unreached(agent, page.error or "no answer")
    if page.status >= 500 or (page.error and not page.body):  # of a file that is too large the beginning counts
        reason = page.error or f"status {page.status}"
        refusal = f"robots.txt could not be read ({reason}), so nothing may be fetched from the site"
        return Robots(agent, refusal=refusal)
    if page.status >= 400:
        return Robots(agent)
    codec, start = find_bom(page.body) or ("utf-8", 0)
    errors = "surrogateescape" if codec == "utf-8" else "replace"
    rules = _select_rules(agent, page.body[start:MAX_ROBOTS].decode(codec, errors))
    if sum("*" in rule or "$" in rule for rule in rules) > _MAX_PATTERNS:
        refusal = f"robots.txt has more than {_MAX_PATTERNS:,} patterns, so nothing may be fetched from the site"
        return Robots(agent, refusal=refusal)
    return Robots(agent, "\n".join(("User-agent: *", *rules)) if rules else None)


def find_product_token(user_agent: str) -> str:
    """Return the name that a User-Agent gives the crawler, like acmebot in `Mozilla/5.0 (compatible; acmebot/1.0)`.

    RFC 9309, section 2.2.1.
    """
    if named := _COMPATIBLE.search(user_agent):
        return named[1]
    products = _PRODUCT.findall(_COMMENT.sub(" ", user_agent)) or [""]
    return next((each for each in products if each.lower() not in _BROWSERS), products[0])


def _select_rules(agent: str, text: str) -> list[str]:
    """Return the lines of all groups for the crawler, or else of those for all (RFC 9309, section 2.2.1).

    A group are lines of user agents and the rules after them: a Crawl-delay, a Sitemap or another line does not part
    user agents (section 2.2.4). A Crawl-delay is for those before it. Protego would end the group, store the rules of
    other crawlers as well, and compare names only as far as they begin alike.
    """
    rules: dict[str, list[str]] = {}
    group, is_open = list[str](), True
    for field in filter(None, map(_LINE.match, text.splitlines())):
        value = field[4].strip()
        if field[1]:
            if not is_open:
                group, is_open = [], True
            token = _TOKEN.match(value)
            name = "*" if value == "*" else token[0].lower() if token else _NOBODY
            group.append(name)
            if name in ("*", agent.lower()):
                rules.setdefault(name, [])
            continue
        is_open = is_open and bool(field[3])
        kind = "Crawl-delay" if field[3] else "Allow" if field[2].lower() == "allow" else "Disallow"
        for name in {*group} & {"*", agent.lower()}:
            if value:
                rules[name].append(f"{kind}: {_keep_bytes(value)}")
    return rules.get(agent.lower(), rules.get("*", []))


def _keep_bytes(text: str) -> str:
    """Write bytes that are not UTF-8 as characters of private use: Protego takes all of them for equal."""

    def escape(found: re.Match[str]) -> str:
        return quote(unquote_to_bytes(found[0]).decode("utf-8", "surrogateescape").translate(_RAW_BYTES))

    return _ESCAPES.sub(escape, text).translate(_RAW_BYTES) if not text.isascii() or "%" in text else text
