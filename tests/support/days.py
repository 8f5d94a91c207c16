"""A site with a page of rows for each day, and a job that is partitioned by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from tests.support.servers import Handler, serve

PIPELINE = """\
fetch: {url: "%s/?day=${DAY}"}
pipeline:
  - {stage: flatSelect, args: [li, [{selector: b, as: title}]]}
"""


@dataclass
class DaySite:
    """Gives `rows` rows for a day; those in `broken` have no page. `requests` counts the days that were asked for."""

    url: str = ""
    rows: int = 3
    broken: set[str] = field(default_factory=set[str])
    requests: Counter[str] = field(default_factory=Counter[str])

    @property
    def pipeline(self) -> str:
        return PIPELINE % self.url


@contextmanager
def serve_days() -> Generator[DaySite]:
    site = DaySite()

    class DayHandler(Handler):
        def do_GET(self) -> None:
            days = parse_qs(urlsplit(self.path).query).get("day")
            if not days or days[0] in site.broken:
                self.respond(404)
                return
            site.requests[days[0]] += 1
            items = "".join(f"<li><b>{days[0]} {number}</b></li>" for number in range(site.rows))
            self.respond(body=f"<title>x</title><ul>{items}</ul>")

    with serve(DayHandler) as site.url:
        yield site
