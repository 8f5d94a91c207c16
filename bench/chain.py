"""A chain of 200 pages with "next" links, compared with Scrapy: `python -m bench.chain [PAGES]`.

Five fields a page, robots.txt and politeness off, the guard on; one core each, nginx on the other. A round
runs Scrapy and a pass of one driver; ratios are of one round. The output shows Spark's start and the first pass, which
runs before Java compiles its code, separately. Installs nginx with apt, and Scrapy into `.bench`.
"""

from __future__ import annotations

import sys
from statistics import median

from bench.contenders import install_contender
from bench.crawl import Command, Driver, run_driver, run_pinned
from bench.nginx import install_packages
from bench.service import describe_machine
from bench.sites import serve_chain

PAGES = 200
WARM, ROUNDS = 2, 5
RUNS = {
    "Spindle, Spark local[1]": (True, "off"),
    "Spindle, page cache written": (True, "written"),
    "Spindle without Spark": (False, "off"),
}


def main() -> None:
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else PAGES
    install_packages()
    scrapy: Command = [install_contender("scrapy", "scrapy"), "-m", "bench.crawlers.spider", "chain"]
    print(describe_machine())
    with serve_chain(pages) as site:
        for name, (spark, cache) in RUNS.items():
            with run_driver("1", site, cache, "chain", spark) as ours:
                compare(name, pages, ours, [*scrapy, site])


def compare(name: str, pages: int, ours: Driver, scrapy: Command) -> None:
    first = ours()
    print(f"{name}: session {first['session']:.1f} s, first pass {first['seconds']:.2f} s", flush=True)
    for _ in range(WARM):
        ours()
    rounds = [(ours(), run_pinned("1", scrapy)) for _ in range(ROUNDS)]
    if any(each["rows"] != pages for each in (first, *sum(rounds, ()))):
        raise SystemExit(f"{pages} rows were expected")
    own, other = (median(each["seconds"] for each in one) for one in zip(*rounds, strict=True))
    ratios = sorted(a["seconds"] / b["seconds"] for a, b in rounds)
    print(f"{name}: {own:.2f} s, Scrapy {other:.2f} s")
    print(f"{name} / Scrapy: {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)


if __name__ == "__main__":
    main()
