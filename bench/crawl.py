"""Pages per second from a single seed: `python -m bench.crawl [PAGES]`.

Spindle with and without Spark, Scrapy, Crawlee and two bare loops crawl the same static site: five fields a page,
equally many requests in flight, politeness and page cache off, guard on. Every contender has one core, and nginx the
other. Then the page cache is written and read, and two cores are compared with one, with nginx on the same cores.

A virtual machine has phases of seconds to minutes in which everything takes twice as long. So all take turns, and
the result is the median of the ratios within a round. Takes about half an hour; installs nginx with apt, and the other
contenders into `.bench`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from statistics import median
from tempfile import NamedTemporaryFile

from bench.contenders import install_contender, read_output
from bench.nginx import install_packages, measure_cpu_seconds
from bench.service import CLONE, Json, describe_machine
from bench.sites import serve_catalog

PAGES = 20_000
SMALL, LARGE = 6_000, 60_000
LONG = 5  # times the pages
WARM, ROUNDS = 4, 9  # passes of a driver before it counts, while Java compiles; and those that count
FEW_WARM, FEW_ROUNDS = 2, 5  # where a pass takes half a minute
OURS, WITHOUT_SPARK = "Spindle, Spark local[1]", "Spindle without Spark"
BARE, BARE_AIOHTTP = "bare pycurl + lexbor", "bare aiohttp + lexbor"
WRITTEN, READ = "page cache written", "page cache read"
ONE, TWO, BARE_ONE, BARE_TWO = "one core for all", "two cores for all", "bare, one core", "two bare loops, two cores"

Command = Sequence[str | Path]
Contender = Callable[[], Json]
Results = Mapping[str, Sequence[Json]]  # of each contender, by round
LOOP: Command = [sys.executable, "-m", "bench.crawlers.bare", "catalog"]


def main() -> None:
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else PAGES
    install_packages()
    print(describe_machine())
    measure_small_pages(pages)
    measure_large_pages(pages)
    measure_long_crawl(LONG * pages)


def measure_small_pages(pages: int) -> None:
    print(f"\n{pages:,} pages of {SMALL:,} bytes")
    with ExitStack() as stack:
        site = stack.enter_context(serve_catalog(pages, SMALL))
        ours = start_on_one_core(stack, site)
        results = take_turns(
            {**ours, **start_with_cache(stack, site), **start_on_two_cores(stack, pages)}, WARM, ROUNDS
        )
        compare(results, OURS, BARE, BARE_AIOHTTP)
        compare(results, WITHOUT_SPARK, BARE)
        compare(results, WRITTEN, OURS, BARE)
        compare(results, READ, OURS)
        compare_cores(results)
        compare_with_frameworks(ours[OURS], site)


def measure_large_pages(pages: int) -> None:
    print(f"\n{pages:,} pages of {LARGE:,} bytes")
    with ExitStack() as stack:
        site = stack.enter_context(serve_catalog(pages, LARGE))
        ours = start_on_one_core(stack, site)
        compare(take_turns(ours, FEW_WARM, FEW_ROUNDS), OURS, BARE, BARE_AIOHTTP)
        compare_with_frameworks(ours[OURS], site)


def measure_long_crawl(pages: int) -> None:
    """Measure a crawl so long that the fixed costs of a pass and of a new JVM hardly count."""
    print(f"\n{pages:,} pages of {SMALL:,} bytes")
    with ExitStack() as stack:
        ours = start_on_one_core(stack, stack.enter_context(serve_catalog(pages, SMALL)))
        results = take_turns({**ours, **start_on_two_cores(stack, pages)}, FEW_WARM, FEW_ROUNDS)
        compare(results, OURS, BARE, BARE_AIOHTTP)
        compare(results, WITHOUT_SPARK, BARE)
        compare_cores(results)


def start_on_one_core(stack: ExitStack, site: str) -> dict[str, Contender]:
    aiohttp = install_contender("aiohttp", "aiohttp", "uvloop", "selectolax")
    return {
        BARE: partial(run_pinned, "1", [*LOOP, site]),
        BARE_AIOHTTP: partial(run_pinned, "1", [aiohttp, "-m", "bench.crawlers.loop", "catalog", site]),
        OURS: stack.enter_context(run_driver("1", site)),
        WITHOUT_SPARK: stack.enter_context(run_driver("1", site, spark=False)),
    }


def start_with_cache(stack: ExitStack, site: str) -> dict[str, Contender]:
    modes = {WRITTEN: "written", READ: "read"}
    return {name: stack.enter_context(run_driver("1", site, cache)) for name, cache in modes.items()}


def start_on_two_cores(stack: ExitStack, pages: int) -> dict[str, Contender]:
    """Engine and server on the same cores: with a core for the server, one core of two would not be comparable."""
    one, two = (stack.enter_context(serve_catalog(pages, SMALL, cores)) for cores in ("1", "0,1"))
    return {
        BARE_ONE: partial(run_pinned, "1", [*LOOP, one]),
        BARE_TWO: partial(run_two_loops, two),
        ONE: stack.enter_context(run_driver("1", one)),
        TWO: stack.enter_context(run_driver("0,1", two)),
    }


@dataclass(frozen=True, slots=True)
class Driver:
    """A driver of Spindle; a call runs one pass."""

    process: subprocess.Popen[str]
    log: Path

    def __call__(self) -> Json:
        print(file=self.process.stdin, flush=True)
        return self.read_answer()

    def read_answer(self) -> Json:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a driver ended with {self.process.wait()}:\n{self.log.read_text()[-2000:]}")
        return json.loads(line)


@contextmanager
def run_driver(
    cores: str, site: str, cache: str = "off", crawl: str = "catalog", spark: bool = True
) -> Generator[Driver]:
    arguments = [crawl, site, str(len(cores.split(",")) if spark else 0), cache]
    command = ["taskset", "-c", cores, sys.executable, "-m", "bench.crawlers.driver", *arguments]
    pipe = subprocess.PIPE
    with (
        NamedTemporaryFile("w") as log,
        subprocess.Popen(command, cwd=CLONE, stdin=pipe, stdout=pipe, stderr=log, text=True) as process,
    ):
        one = Driver(process, Path(log.name))
        one.read_answer()  # it is ready: those that start at once on one core would wait for each other
        yield one
        process.communicate()


def run_two_loops(site: str) -> Json:
    """Run a bare loop with all pages on each core; the slower one counts, as it does for Spindle."""
    with ThreadPoolExecutor() as both:
        results = list(both.map(run_pinned, "01", repeat([*LOOP, site])))
    return {"rows": sum(each["rows"] for each in results), "seconds": max(each["seconds"] for each in results)}


def run_pinned(cores: str, command: Command) -> Json:
    return read_output(["taskset", "-c", cores, *command])


def take_turns(contenders: Mapping[str, Contender], warm: int, rounds: int) -> Results:
    """Run all contenders in each round; return their results by name."""
    for name, run in contenders.items():
        if isinstance(run, Driver):
            passes = [run() for _ in range(warm)]
            shown = ", ".join(f"{each['seconds']:.1f}" for each in passes)
            print(f"{name}: session {passes[0]['session']:.1f} s, first passes {shown} s", flush=True)
    results: dict[str, list[Json]] = {name: [] for name in contenders}
    for turn in range(rounds):
        for name, run in contenders.items():
            print(f"\rround {turn + 1} of {rounds}: {name:<40}", end="", file=sys.stderr, flush=True)
            before = measure_cpu_seconds()
            results[name].append({**run(), "served": measure_cpu_seconds() - before})
    print(file=sys.stderr)
    for name, found in results.items():
        speeds = sorted(map(compute_speed, found))
        print(f"{name:<28}{median(speeds):>8,.0f} pages/s ({speeds[0]:,.0f} to {speeds[-1]:,.0f})", flush=True)
    return results


def compare(results: Results, one: str, *others: str) -> None:
    for other in others:
        ratios = sorted(compute_speed(a) / compute_speed(b) for a, b in zip(results[one], results[other], strict=True))
        print(f"{one} / {other}: {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)


def compare_cores(results: Results) -> None:
    compare(results, TWO, ONE, OURS)
    compare(results, BARE_TWO, BARE_ONE)
    served = median(each["served"] / each["seconds"] / 2 for each in results[TWO])
    linked = median(
        compute_linked_seconds(a) / compute_linked_seconds(b) for a, b in zip(results[ONE], results[TWO], strict=True)
    )
    print(f"nginx takes {served:.0%} of two cores; without seed and planning they are worth {linked:.2f}", flush=True)


def compare_with_frameworks(ours: Contender, site: str) -> None:
    """Run each framework once, as it takes minutes, between two passes of Spindle."""
    frameworks: Mapping[str, Command] = {
        "Crawlee": [install_contender("crawlee", "crawlee[parsel]"), "-m", "bench.crawlers.crawlee_http", "catalog"],
        "Scrapy": [install_contender("scrapy", "scrapy"), "-m", "bench.crawlers.spider", "catalog"],
    }
    for name, command in frameworks.items():
        before, result, after = ours(), run_pinned("1", [*command, site]), ours()
        ratio = result["seconds"] / ((before["seconds"] + after["seconds"]) / 2)
        print(f"{name:<28}{compute_speed(result):>8,.0f} pages/s; {OURS} / {name}: {ratio:.1f}", flush=True)


def compute_linked_seconds(result: Json) -> float:
    """Return the seconds from the first to the last page that the seed links to."""
    return result["depths"][-1][2]


def compute_speed(result: Json) -> float:
    """Return pages per second."""
    return result["rows"] / result["seconds"]


if __name__ == "__main__":
    main()
