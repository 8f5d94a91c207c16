"""Pages per second on one core from a single seed: `python -m bench.crawl [PAGES]`.

Our engine, Scrapy, Crawlee and two bare loops crawl the same static site, one after the other, each pinned to one core
while nginx has the other; five fields a page, as many requests in flight. Politeness and the page cache are off, the
guard is on; then the engine again with the cache written, and with everything taken from it. At the end two cores
against one. Installs nginx with apt, and the other contenders into `.bench`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.contenders import installed, output_of
from bench.nginx import install
from bench.service import Json, machine
from bench.sites import catalog

PAGES = 20_000
SIZES = (6_000, 60_000)
ROUNDS = 2
OURS, BARE = "Spindle, Spark local[1]", "bare pycurl + lexbor"


def main() -> None:
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else PAGES
    install()
    contenders = commands()
    print(machine())
    for size in SIZES:
        with catalog(pages, size) as site:
            print(f"\n{pages:,} pages of {size:,} bytes")
            report(rounds(contenders, site))
            with_cache(site)
            cores(site)


def commands() -> Mapping[str, Sequence[str | Path]]:
    """Each contender's command, but for the site."""
    aiohttp = installed("aiohttp", "aiohttp", "uvloop", "selectolax")
    return {
        BARE: [sys.executable, "-m", "bench.crawlers.bare", "catalog"],
        "bare aiohttp + lexbor": [aiohttp, "-m", "bench.crawlers.loop", "catalog"],
        OURS: [sys.executable, "-m", "bench.crawlers.engine", "catalog"],
        "Crawlee": [installed("crawlee", "crawlee[parsel]"), "-m", "bench.crawlers.crawlee_http", "catalog"],
        "Scrapy": [installed("scrapy", "scrapy"), "-m", "bench.crawlers.spider", "catalog"],
    }


def rounds(contenders: Mapping[str, Sequence[str | Path]], site: str) -> dict[str, Json]:
    """Each contender's best of some rounds, in which they take turns."""
    results = [{name: pinned(1, [*command, site]) for name, command in contenders.items()} for _ in range(ROUNDS)]
    return {name: min((each[name] for each in results), key=seconds) for name in contenders}


def report(best: Mapping[str, Json]) -> None:
    for name, result in best.items():
        print(f"{name:<26}{result['rows'] / seconds(result):>9,.0f} pages/s {seconds(result):>8.2f} s")
    ours = best[OURS]
    cold, fourth = ours["cold"]["seconds"], ours["fourth"]["seconds"]
    print(f"session {ours['session']:.1f} s, first pass of a cold driver {cold:.1f} s, fourth {fourth:.1f} s")
    for name in best:
        if name != OURS:
            print(f"Spindle / {name}: {seconds(best[name]) / seconds(ours):.2f}")


def with_cache(site: str) -> None:
    for mode in ("written", "read"):
        result = pinned(1, [sys.executable, "-m", "bench.crawlers.engine", "catalog", site, "1", mode])
        print(f"page cache {mode:<9}{result['rows'] / seconds(result):>9,.0f} pages/s {seconds(result):>8.2f} s")


def cores(site: str) -> None:
    """nginx shares its core with the second half of the engine; its own time is the limit beyond that."""
    one, two = (
        output_of(["taskset", "-c", on, sys.executable, "-m", "bench.crawlers.engine", "catalog", site, str(count)])
        for on, count in (("1", 1), ("0,1", 2))
    )
    print(f"two cores / one: {seconds(one) / seconds(two):.2f}")


def pinned(core: int, command: Sequence[str | Path]) -> Json:
    return output_of(["taskset", "-c", str(core), *command])


def seconds(result: Json) -> float:
    return result["seconds"]


if __name__ == "__main__":
    main()
