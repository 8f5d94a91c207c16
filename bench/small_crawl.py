"""Small crawls as their users run them: `python -m bench.small_crawl [PAGES…]`.

The wall-clock of `spindle run`, which needs no Spark for them, and of `scrapy runspider`, both with new processes, on
both cores: lists of 100 products with a link to the next list, products of 5 KB with four fields, 16 requests at once,
robots.txt off. The commands take turns, and the median of the ratios within a round counts. Installs nginx with apt,
and Scrapy into `.bench`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, TemporaryFile

from bench.contenders import install_contender
from bench.nginx import install_packages
from bench.service import CLONE, describe_machine
from bench.sites import serve_shop

SIZE = 5_000
GOALS = {20: 0.8, 200: 0.5, 2_000: 0.15, 20_000: 0.12}  # of Scrapy's time
FEW_ROUNDS, ROUNDS, MANY_PAGES = 3, 7, 1_000
PIPELINE = """\
fetch:
  url: ${SITE}
pipeline:
  - {stage: wgetExplore, args: [a.next, {depth: 1000}]}
  - {stage: wgetJoin, args: [li.item a]}
  - stage: extract
    args:
      - {selector: h1, method: text, as: title}
      - {selector: .price, method: text, as: price}
      - {selector: td.brand, method: text, as: brand}
      - {selector: p.summary, method: text, as: summary}
spindle: {robots: ignore, concurrency: 16}
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    seconds: float
    megabytes: float


def main() -> None:
    install_packages()
    scrapy = install_contender("scrapy", "scrapy").parent / "scrapy"
    print(describe_machine())
    for pages in [*map(int, sys.argv[1:])] or GOALS:
        compare(scrapy, pages)


def compare(scrapy: Path, pages: int) -> None:
    """Run both commands in each round, and print the medians of their seconds and of the ratios."""
    with TemporaryDirectory() as folder, serve_shop(pages, SIZE) as site:
        file, rows = Path(folder) / "shop.yaml", Path(folder) / "rows.jsonl"
        file.write_text(PIPELINE)
        spindle = [Path(sys.executable).parent / "spindle", "run", file, "-p", f"SITE={site}", "-o", rows]
        spider = CLONE / "bench/crawlers/shop_spider.py"
        other = [scrapy, "runspider", spider, "-a", f"url={site}", "-O", rows]
        rounds = range(FEW_ROUNDS if pages > MANY_PAGES else ROUNDS)
        results = [(run(spindle, rows, pages), run(other, rows, pages)) for _ in rounds]
    ratios = sorted(own.seconds / scrapys.seconds for own, scrapys in results)
    own, scrapys = (median(each.seconds for each in one) for one in zip(*results, strict=True))
    memory, scrapy_memory = (max(each.megabytes for each in one) for one in zip(*results, strict=True))
    goal = f", goal {GOALS[pages]}" if pages in GOALS else ""
    print(
        f"{pages:,} pages: {own:.2f} s and {memory:.0f} MB, Scrapy {scrapys:.2f} s and {scrapy_memory:.0f} MB, "
        f"ratio {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}{goal})",
        flush=True,
    )


def run(command: Sequence[str | Path], rows: Path, expected: int) -> Outcome:
    """Run a command that writes `rows`; return its time and the most memory of its process."""
    rows.unlink(missing_ok=True)
    began = time.perf_counter()
    with TemporaryFile() as log:
        process = subprocess.Popen(command, cwd=rows.parent, stdout=log, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        seconds, process.returncode = time.perf_counter() - began, os.waitstatus_to_exitcode(status)
        log.seek(0)
        printed = log.read().decode(errors="replace")
    written = len(rows.read_text().splitlines()) if rows.exists() else 0
    if process.returncode or written != expected:
        raise SystemExit(f"{written} rows instead of {expected}, code {process.returncode}:\n{printed[-2000:]}")
    return Outcome(seconds, usage.ru_maxrss / 1000)


if __name__ == "__main__":
    main()
