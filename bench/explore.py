"""A site of 20,000 pages and 200,000 links explored on all cores, beside one of 1,000: `python -m bench.explore`.

Seconds for each depth, by the first and the last page of it; memory; time a page. Then 50,000 pages of a catalog, for
the memory of a worker from its first thousands of pages to its last.
"""

from __future__ import annotations

import json
import sys
from statistics import median

from bench.contenders import output_of
from bench.crawlers.engine import crawled
from bench.crawlers.fields import CRAWLS
from bench.memory import Samples, sampled
from bench.nginx import install
from bench.service import Json, machine
from bench.sites import catalog, graph

SIZES = (1_000, 20_000)
LONG = 50_000
MIB = 1024 * 1024


def main() -> None:
    install()
    print(machine())
    for pages in SIZES:
        with graph(pages) as site:
            explored(pages, output_of([sys.executable, "-m", "bench.explore", "graph", site]))
    with catalog(LONG, 6_000) as site:
        result = output_of([sys.executable, "-m", "bench.explore", "catalog", site])
        workers = [sample["workers"] / MIB for sample in result["memory"]]
        tenth = max(len(workers) // 10, 1)
        shares = [f"{median(workers[at : at + tenth]):.0f}" for at in range(0, tenth * 10, tenth)]
        print(f"\n{result['rows']:,} pages: MiB of the Python workers, by tenths of the time: {', '.join(shares)}")


def explored(pages: int, result: Json) -> None:
    peak = {kind: max(sample[kind] for sample in result["memory"]) / MIB for kind in ("jvm", "workers")}
    per_page = result["seconds"] / result["rows"] * 1000
    print(f"\n{pages:,} pages: {result['rows']:,} rows in {result['seconds']:.1f} s, {per_page:.2f} ms a page")
    print(f"peak memory: JVM {peak['jvm']:.0f} MiB, Python workers {peak['workers']:.0f} MiB")
    for depth, rows, seconds in result["depths"]:
        print(f"  depth {depth}: {rows:>6,} pages {seconds:>6.2f} s")


def measure(crawl: str, site: str) -> Json:
    """One crawl of a driver that has made one already, with its memory."""
    memory: Samples
    with sampled() as memory, crawled(CRAWLS[crawl], site) as passes:
        next(passes)
        memory.clear()
        result = next(passes)
    return {**result, "memory": memory}


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(*sys.argv[1:])))
    else:
        main()
