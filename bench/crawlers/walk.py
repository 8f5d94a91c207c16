"""An independent walk of a site's link graph with only the standard library: `python -m bench.crawlers.walk URL`."""

from __future__ import annotations

import json
import sys
from collections import deque
from html.parser import HTMLParser
from urllib.error import HTTPError
from urllib.parse import urldefrag, urljoin, urlsplit
from urllib.request import urlopen


class Links(HTMLParser):
    """The hrefs of a page's links that have no scheme."""

    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if tag == "a" and href is not None and not urlsplit(href).scheme:
            self.hrefs.append(href)


def walk(seed: str) -> dict[str, int]:
    """Return the status of the seed and of every URL reached by links."""
    statuses: dict[str, int] = {}
    waiting = deque([seed])
    while waiting:
        url = waiting.popleft()
        if url not in statuses:
            statuses[url], hrefs = visit(url)
            waiting.extend(urldefrag(urljoin(url, href))[0] for href in hrefs)
    return statuses


def visit(url: str) -> tuple[int, list[str]]:
    try:
        with urlopen(url) as answer:
            page = answer.read().decode(answer.headers.get_content_charset() or "utf-8")
    except HTTPError as error:
        return error.code, []
    links = Links()
    links.feed(page)
    return 200, links.hrefs


def main() -> None:
    statuses = walk(sys.argv[1])
    print(json.dumps({"rows": len(statuses), "found": sum(status < 400 for status in statuses.values())}))


if __name__ == "__main__":
    main()
