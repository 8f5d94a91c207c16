"""Explores on Spark whose pages a worker makes from their addresses, without requests: links, rows and exchanges alone.

`python -m bench.crawlers.synthetic PAGES HEAP` prints the rows by the seconds in which they were made.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame

from bench.crawlers.fields import CRAWLS
from bench.crawlers.pipeline import build_pipeline
from bench.sites import build_tree
from pipelines.contract.context import RunContext
from pipelines.engine import worker
from pipelines.engine.definition import Pass
from pipelines.engine.options import make_fetch_options
from pipelines.engine.run import Run
from pipelines.fetch import Page
from pipelines.page_cache.options import CacheOptions
from pipelines.pipeline import Pipeline
from pipelines.spark import engine, runner
from pipelines.spark.session import start_session
from pipelines.spark.tasks import run_pass_in_task

SITE = "http://pages.test/p"


class TreeFetcher:
    """A fetcher of the pages of a tree."""

    def __init__(self, pages: int) -> None:
        self._pages = [(re.compile(path), page) for path, page in build_tree(pages).items()]

    def fetch(self, requests: Iterable[tuple[str, object]], describe: object = None) -> Iterator[tuple[Page, object]]:
        for url, tag in requests:
            yield Page(url, url, 200, None, "text/html", "utf-8", self._build(url), datetime.now(UTC)), tag

    def _build(self, url: str) -> bytes:
        path = urlsplit(url).path
        match, page = next((match, page) for pattern, page in self._pages if (match := pattern.match(path)))
        for number in range(1, 5):
            page = page.replace(f"${number}", match[number] or "")
        return page.encode()


def run_synthetic_pass(pages: int, task: Pass, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run a pass in a worker whose pages are those of a tree."""

    def create(*options: object) -> AbstractContextManager[TreeFetcher]:
        return nullcontext(TreeFetcher(pages))

    vars(worker)["create_fetcher"] = create
    return run_pass_in_task(task, batches)


def main(pages: int, heap: str) -> None:
    plan = Pipeline.from_yaml(build_pipeline(CRAWLS["graph"], "  engine: spark")).plan({"SITE": SITE})
    spark = start_session("local[2]", conf={"spark.driver.memory": heap}, loads=plan.reads_files)
    context = RunContext(fetch=make_fetch_options(plan.options, ()), cache=CacheOptions(enabled=False))
    vars(engine)["run_pass_in_task"] = partial(run_synthetic_pass, pages)
    with tempfile.TemporaryDirectory() as folder, Run(plan, context, 20) as run:
        began = time.perf_counter()
        runner.SparkRunner(run, spark).write(f"{folder}/rows")
        seconds = time.perf_counter() - began
        rows: DataFrame = spark.read.parquet(f"{folder}/rows")
        counted = rows.groupBy(rows["_fetchedAt"].cast("timestamp").cast("long").alias("second")).count()
        made = sorted((row["second"], row["count"]) for row in counted.collect())
    print(json.dumps({"rows": sum(count for _, count in made), "seconds": seconds, "made": made}))
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
