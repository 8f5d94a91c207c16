"""Pages per second on one core from a single seed: `python -m bench.crawl [PAGES]`.

Our engine, Scrapy, Crawlee and two bare loops crawl the same static site, one after the other, each pinned to one core
while nginx has the other; five fields a page, as many requests in flight. Politeness and the page cache are off, the
guard is on; then the engine again with the cache written, and with everything taken from it, and on two cores, beside
two bare loops at once. At the end a long crawl, in which what a young JVM compiles counts for little. Takes about
sixteen minutes; installs nginx with apt, and the other contenders into `.bench`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

from bench.contenders import installed, output_of
from bench.nginx import cpu_seconds, install
from bench.service import Json, machine
from bench.sites import catalog

PAGES = 20_000
SMALL, LARGE = 6_000, 60_000
PASSES = {SMALL: 8, LARGE: 4}  # of one driver, by the size of the pages; the best of the second half counts
ROUNDS = 3  # of a bare loop; the best counts
LONG, LONG_PASSES = 5, 3  # so many times the pages
OURS, BARE, BARE_AIOHTTP = "Spindle, Spark local[1]", "bare pycurl + lexbor", "bare aiohttp + lexbor"

Command = Sequence[str | Path]
ENGINE: Command = [sys.executable, "-m", "bench.crawlers.engine", "catalog"]
LOOP: Command = [sys.executable, "-m", "bench.crawlers.bare", "catalog"]


def main() -> None:
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else PAGES
    install()
    contenders = commands()
    print(machine())
    for size, passes in PASSES.items():
        with catalog(pages, size) as site:
            print(f"\n{pages:,} pages of {size:,} bytes")
            results = {name: crawled(name, command, site, passes) for name, command in contenders.items()}
            report(results)
            if size == SMALL:
                with_cache(results, site, passes)
            two_cores(results, site, passes)
    with catalog(LONG * pages, SMALL) as site:
        print(f"\n{LONG * pages:,} pages of {SMALL:,} bytes")
        results = {name: crawled(name, contenders[name], site, LONG_PASSES) for name in (BARE, BARE_AIOHTTP, OURS)}
        report(results)
        two_cores(results, site, LONG_PASSES)


def commands() -> Mapping[str, Command]:
    """Each contender's command, but for the site."""
    aiohttp = installed("aiohttp", "aiohttp", "uvloop", "selectolax")
    return {
        BARE: LOOP,
        BARE_AIOHTTP: [aiohttp, "-m", "bench.crawlers.loop", "catalog"],
        OURS: ENGINE,
        "Crawlee": [installed("crawlee", "crawlee[parsel]"), "-m", "bench.crawlers.crawlee_http", "catalog"],
        "Scrapy": [installed("scrapy", "scrapy"), "-m", "bench.crawlers.spider", "catalog"],
    }


def crawled(name: str, command: Command, site: str, passes: int) -> Json:
    """What a contender made of the site on one core."""
    if name == OURS:
        return pinned("1", [*command, site, *engine_arguments(1, "off", passes)])
    rounds = ROUNDS if name in (BARE, BARE_AIOHTTP) else 1
    return max((pinned("1", [*command, site]) for _ in range(rounds)), key=speed)


def engine_arguments(cores: int, cache: str, passes: int) -> Command:
    return [str(cores), cache, str(passes)]


def report(results: Mapping[str, Json]) -> None:
    for name, result in results.items():
        tell(name, result)
    ours = results[OURS]
    passes = ", ".join(f"{each:.1f}" for each in ours["passes"])
    print(f"session {ours['session']:.1f} s, passes of one driver {passes} s")
    for name, result in results.items():
        if name != OURS:
            print(f"Spindle / {name}: {speed(ours) / speed(result):.2f}")


def with_cache(results: Mapping[str, Json], site: str, passes: int) -> None:
    for mode in ("written", "read"):
        result = pinned("1", [*ENGINE, site, *engine_arguments(1, mode, passes)])
        tell(f"page cache {mode}", result)
        for other in (OURS, BARE):
            print(f"  / {other}: {speed(result) / speed(results[other]):.2f}")


def two_cores(results: Mapping[str, Json], site: str, passes: int) -> None:
    """The server shares its core with the second half of the engine: with it, not even twice the speed is left.

    What the machine itself leaves of that, two bare loops tell.
    """
    one = results[OURS]
    before = cpu_seconds()
    two = pinned("0,1", [*ENGINE, site, *engine_arguments(2, "off", passes)])
    served = (cpu_seconds() - before) / passes / two["rows"]
    most = 2 / (1 + served * speed(one))
    bare = max((loops_at_once(site) for _ in range(ROUNDS)), key=speed)
    print(
        f"two cores / one: {speed(two) / speed(one):.2f}, without the seed and what Spark does once a pass "
        f"{linked_seconds(one) / linked_seconds(two):.2f}"
    )
    print(f"  one task is done while the other goes on for {two['alone'] / linked_seconds(two):.0%} of that time")
    print(
        f"  nginx takes {served * 1e6:.0f} µs a page, {served * speed(two) / 2:.0%} of the two cores, "
        f"which leaves {most:.2f} at most"
    )
    print(f"  two bare loops at once / one: {speed(bare) / speed(results[BARE]):.2f}")


def loops_at_once(site: str) -> Json:
    """A bare loop on each core, both with all pages; over with the slower one, as the engine is."""
    with ThreadPoolExecutor() as both:
        results = list(both.map(pinned, "01", repeat([*LOOP, site])))
    return {"rows": sum(each["rows"] for each in results), "seconds": max(each["seconds"] for each in results)}


def linked_seconds(result: Json) -> float:
    """From the first to the last of the pages that the seed links to."""
    return result["depths"][-1][2]


def pinned(cores: str, command: Command) -> Json:
    return output_of(["taskset", "-c", cores, *command])


def tell(name: str, result: Json) -> None:
    print(f"{name:<26}{speed(result):>9,.0f} pages/s {result['seconds']:>8.2f} s")


def speed(result: Json) -> float:
    """Pages a second."""
    return result["rows"] / result["seconds"]


if __name__ == "__main__":
    main()
