"""Explores of 20,000 pages with 200,000 links, and of 1,000 pages, on all cores: `python -m bench.explore`.

Prints seconds per depth, memory, and time per page. Then crawls 50,000 pages of a catalog and prints the memory of a
worker over time.
"""

from __future__ import annotations

import json
import sys
from statistics import median

from bench.contenders import read_output
from bench.crawlers.engine import run_passes
from bench.crawlers.fields import CRAWLS
from bench.memory import Samples, sample_memory
from bench.nginx import install_packages
from bench.service import Json, describe_machine
from bench.sites import serve_catalog, serve_graph

SIZES = (1_000, 20_000)
LONG = 50_000
MIB = 1024 * 1024


def main() -> None:
    install_packages()
    print(describe_machine())
    for pages in SIZES:
        with serve_graph(pages) as site:
            report_explore(pages, read_output([sys.executable, "-m", "bench.explore", "graph", site]))
    with serve_catalog(LONG, 6_000) as site:
        result = read_output([sys.executable, "-m", "bench.explore", "catalog", site])
        workers = [sample["workers"] / MIB for sample in result["memory"]]
        tenth = max(len(workers) // 10, 1)
        shares = [f"{median(workers[at : at + tenth]):.0f}" for at in range(0, tenth * 10, tenth)]
        print(f"\n{result['rows']:,} pages: MiB of the Python workers, by tenths of the time: {', '.join(shares)}")


def report_explore(pages: int, result: Json) -> None:
    peak = {kind: max(sample[kind] for sample in result["memory"]) / MIB for kind in ("jvm", "workers")}
    per_page = result["seconds"] / result["rows"] * 1000
    print(f"\n{pages:,} pages: {result['rows']:,} rows in {result['seconds']:.1f} s, {per_page:.2f} ms a page")
    print(f"peak memory: JVM {peak['jvm']:.0f} MiB, Python workers {peak['workers']:.0f} MiB")
    for depth, rows, seconds in result["depths"]:
        print(f"  depth {depth}: {rows:>6,} pages {seconds:>6.2f} s")


def measure(crawl: str, site: str) -> Json:
    """Return the second crawl of a driver, with its memory."""
    memory: Samples
    with sample_memory() as memory, run_passes(CRAWLS[crawl], site) as passes:
        next(passes)
        memory.clear()
        result = next(passes)
    return {**result, "memory": memory}


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(*sys.argv[1:])))
    else:
        main()
