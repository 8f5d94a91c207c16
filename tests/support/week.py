"""A data engineer's week: a shop whose prices change by the day, and two projects with three jobs that follow them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.support.servers import Handler, serve
from tests.support.service import CLONE, Service

DECLARATION = """\
categories:
  - {{name: Week}}
agents:
  - name: Week prices
    category: Week
    pipeline:
      fetch: {{url: "{shop}/prices?day=${{DAY}}"}}
      pipeline:
        - stage: flatSelect
          args:
            - li
            - - {{selector: b, as: title, description: Name in the shop}}
              - {{selector: {price}, method: price, as: price, description: Price with tax}}
      checks:
        - {{check: filled, column: price}}
        - {{check: row_count, min: 2}}
  - name: Week means
    category: Week
    pipeline:
      pipeline:
        - stage: sql_query
          args:
            - query: |
                SELECT day, avg(price) AS mean, count(*) AS products
                FROM prices WHERE day >= '${{FROM}}' GROUP BY day ORDER BY day
              tables: {{prices: week_shop.prices}}
              dialect: trino
  - name: Week report
    category: Week
    pipeline:
      pipeline:
        - stage: sql_query
          args:
            - query: SELECT max(mean) AS highest, min(mean) AS lowest FROM means
              tables: {{means: week_shop.means}}
              dialect: trino
projects:
  - name: Week shop
    parameters: {{FROM: 2026-06-01}}
    schedules:
      - {{name: nightly, cronSchedule: "0 2 * * *", timezone: Europe/Rome, job: prices, enabled: false}}
      - {{name: monthly, cronSchedule: "0 6 1 * *", timezone: Europe/Rome, job: means, enabled: false}}
    notifications:
      - {{name: on_call, to: WEBHOOK/week, events: [failed, recovered], job: prices, pauseSeconds: 0}}
    jobs:
      - name: prices
        agent: Week/Week prices
        description: Prices of each day, with tax
        owners: [data@example.com, "team:prices"]
        tags: {{source: shop}}
        freshness: {{maxAge: PT26H}}
        partitions: {{by: day, start: 2026-06-01, end: 2026-06-30, timezone: Europe/Rome, parameter: DAY}}
      - {{name: means, agent: Week/Week means, dependsOn: [prices]}}
  - name: Week finance
    jobs:
      - {{name: report, agent: Week/Week report, trigger: {{onNewInput: true}}}}
"""


PRODUCTS = {"Lamp": 10, "Mug": 20, "Rug": 30}


@dataclass
class DayShop:
    """A shop with three products, whose prices grow with the day. `requests` counts the days that were asked for."""

    url: str = ""
    requests: Counter[str] = field(default_factory=Counter[str])


@contextmanager
def serve_shop() -> Generator[DayShop]:
    shop = DayShop()

    class ShopHandler(Handler):
        def do_GET(self) -> None:
            days = parse_qs(urlsplit(self.path).query).get("day")
            if not days:
                self.respond(404)
                return
            shop.requests[days[0]] += 1
            number = int(days[0][-2:])
            rows = (f"<li><b>{name}</b> <i>{base + number}.50 EUR</i></li>" for name, base in PRODUCTS.items())
            self.respond(body=f"<title>Prices</title><ul>{''.join(rows)}</ul>")

    with serve(ShopHandler) as shop.url:
        yield shop


def apply(service: Service, folder: Path, shop: DayShop, price: str = "i") -> None:
    """Declare the jobs with the command; `price` is the selector of the price."""
    file = folder / "week.yaml"
    file.write_text(DECLARATION.format(shop=shop.url, price=price))
    environment = {**os.environ, "SPINDLE_URL": service.base_url, "SPINDLE_KEY": service.key}
    command = [sys.executable, "-m", "cli.main", "apply", "-f", str(file)]
    done = subprocess.run(command, cwd=CLONE, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
