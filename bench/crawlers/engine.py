"""Spindle's engine, cold and warm: `python -m bench.crawlers.engine CRAWL URL [CORES] [CACHE] [PASSES]`.

With 0 CORES it runs without Spark. The session's start is measured separately. Each pass crawls everything and writes
its rows as Parquet, like a driver. The last pass counts. The page cache CACHE is `off`, `written` (empty before each
pass) or `read` (full).
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

import pyarrow.parquet as pq

from bench.crawlers.fields import CONCURRENCY, CRAWLS, Crawl
from bench.crawlers.pipeline import build_pipeline
from pipelines.contract.context import RunContext
from pipelines.engine.options import make_fetch_options
from pipelines.engine.run import Run
from pipelines.local.runner import LocalRunner
from pipelines.page_cache.options import CacheOptions
from pipelines.pipeline import Pipeline
from pipelines.planning.plan import Plan
from pipelines.spark.runner import SparkRunner
from pipelines.spark.session import start_session

PASSES = 8  # Java compiles for the first ones; the best of the others counts
SHOWN_ROWS = 20  # of each step, as in a driver

Result = dict[str, object]
Start = Callable[[Run], LocalRunner | SparkRunner]


def main() -> None:
    crawl, site, cores = CRAWLS[sys.argv[1]], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1
    cache = sys.argv[4] if len(sys.argv) > 4 else "off"
    count = int(sys.argv[5]) if len(sys.argv) > 5 else PASSES
    with run_passes(crawl, site, cores, cache) as passes:
        results = [next(passes) for _ in range(count)]
    best = min(results[count // 2 :], key=lambda each: cast("float", each["seconds"]))
    print(json.dumps({**best, "passes": [each["seconds"] for each in results]}))


@contextmanager
def run_passes(crawl: Crawl, site: str, cores: int = 2, cache: str = "off") -> Generator[Iterator[Result]]:
    """Yield an iterator that runs a pass of one driver for each item."""
    plan = Pipeline.from_yaml(build_pipeline(crawl, f"  concurrency: {CONCURRENCY}\n  robots: ignore")).plan(
        {"SITE": site}
    )
    began = time.perf_counter()
    spark = start_session(f"local[{cores}]", loads=plan.reads_files) if cores else None
    started = time.perf_counter() - began
    start: Start = partial(SparkRunner, spark=spark) if spark else LocalRunner
    with tempfile.TemporaryDirectory() as pages:
        try:
            yield ({"session": started, **run_pass(start, plan, cache, pages)} for _ in iter(int, 1))
        finally:
            if spark:
                spark.stop()


def run_pass(start: Start, plan: Plan, cache: str, pages: str) -> Result:
    options = make_fetch_options(plan.options, ("127.0.0.1/32",))
    with tempfile.TemporaryDirectory() as folder:
        kept = {"off": None, "written": f"{folder}/pages", "read": pages}[cache]
        context = RunContext(fetch=options, cache=CacheOptions(kept, lifetime_seconds=86400, enabled=kept is not None))
        with Run(plan, context, SHOWN_ROWS) as run:
            began = time.perf_counter()
            start(run).write(f"{folder}/rows")
            seconds = time.perf_counter() - began
        depths = read_depths(f"{folder}/rows")
    return {"rows": sum(rows for _, rows, _ in depths), "seconds": seconds, "depths": depths}


def read_depths(folder: str) -> list[tuple[int, int, float]]:
    """Return the pages of each depth and the seconds from first to last; without Spark, to not warm it up."""
    table = pq.read_table(folder, columns=["_depth", "_fetchedAt"])
    whole = table.group_by("_depth").aggregate([([], "count_all"), ("_fetchedAt", "min"), ("_fetchedAt", "max")])
    found = whole.select(["_depth", "count_all", "_fetchedAt_min", "_fetchedAt_max"]).sort_by("_depth").to_pydict()
    return [
        (depth, rows, (last - first).total_seconds()) for depth, rows, first, last in zip(*found.values(), strict=True)
    ]


if __name__ == "__main__":
    main()
