"""Our own engine, cold and warm: `python -m bench.crawlers.engine CRAWL URL [CORES]`.

The session's start is told apart. Each pass crawls everything anew and writes its rows as Parquet.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

from pyspark.sql import SparkSession

from bench.crawlers.fields import CONCURRENCY, CRAWLS
from bench.crawlers.pipeline import pipeline
from pipelines import Pipeline
from pipelines.plan import Plan
from pipelines.spark.context import RunContext, fetch_options
from pipelines.spark.engine import run
from pipelines.spark.session import session

PASSES = 3


def main() -> None:
    crawl, site, cores = CRAWLS[sys.argv[1]], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1
    began = time.perf_counter()
    spark = session(f"local[{cores}]")
    started = time.perf_counter() - began
    text = pipeline(crawl, f"  concurrency: {CONCURRENCY}")
    plan = Pipeline.from_yaml(text).plan({"SITE": site})
    passes = [one_pass(spark, plan) for _ in range(PASSES)]
    print(json.dumps({"session": started, "cold": passes[0], **passes[-1]}))
    spark.stop()


def one_pass(spark: SparkSession, plan: Plan) -> dict[str, float]:
    began = time.perf_counter()
    rows = run(plan, spark, RunContext(fetch=fetch_options(plan.options, ("127.0.0.1/32",))))
    with tempfile.TemporaryDirectory() as folder:
        rows.write.parquet(f"{folder}/rows")
        seconds = time.perf_counter() - began
        return {"rows": spark.read.parquet(f"{folder}/rows").count(), "seconds": seconds}


if __name__ == "__main__":
    main()
