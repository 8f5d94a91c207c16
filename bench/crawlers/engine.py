"""Our own engine on local[1], cold and warm: `python -m bench.crawlers.engine URL`.

The session's start is told apart. Each pass crawls everything anew and writes its rows as Parquet.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

from pyspark.sql import SparkSession

from bench.crawlers.pipeline import PIPELINE
from pipelines import Pipeline
from pipelines.fetch import FetchOptions
from pipelines.plan import Plan
from pipelines.spark.context import RunContext
from pipelines.spark.engine import run
from pipelines.spark.session import session

PASSES = 3


def main() -> None:
    began = time.perf_counter()
    spark = session("local[1]")
    started = time.perf_counter() - began
    plan = Pipeline.from_yaml(PIPELINE).plan({"SITE": sys.argv[1]})
    passes = [one_pass(spark, plan) for _ in range(PASSES)]
    print(json.dumps({"session": started, "cold": passes[0], **passes[-1]}))
    spark.stop()


def one_pass(spark: SparkSession, plan: Plan) -> dict[str, float]:
    began = time.perf_counter()
    rows = run(plan, spark, RunContext(fetch=FetchOptions(allow_networks=("127.0.0.1/32",))))
    with tempfile.TemporaryDirectory() as folder:
        rows.write.parquet(f"{folder}/rows")
        seconds = time.perf_counter() - began
        return {"rows": spark.read.parquet(f"{folder}/rows").count(), "seconds": seconds}


if __name__ == "__main__":
    main()
