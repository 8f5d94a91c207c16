"""Spindle's engine, cold and warm: `python -m bench.visitors.engine SITE PAGES TABS`, over `local[2]`.

Each pass visits all pages. The session's start is measured separately; the first pass includes the browsers' start.
"""

from __future__ import annotations

import json
import os
import sys
import time

from pyspark.sql import SparkSession

from bench.visitors.fields import FIELDS
from pipelines.contract.context import RunContext
from pipelines.engine.run import Run
from pipelines.fetch import CrawlOptions
from pipelines.pipeline import Pipeline
from pipelines.planning.plan import Plan
from pipelines.spark.runner import SparkRunner
from pipelines.spark.session import start_session

WORKERS = 2
EXTRACTORS = ", ".join(f"{{selector: '{selector}', as: {name}}}" for name, selector in FIELDS.items())
PIPELINE = f"""
fetch: {{url: "${{SITE}}/index.html"}}
pipeline:
  - {{stage: visitJoin, args: ["li.item a", Inner]}}
  - {{stage: extract, args: [{EXTRACTORS}]}}
"""


def main() -> None:
    os.environ["SPINDLE_BROWSER_PAGES"] = str(int(sys.argv[3]) // WORKERS)
    plan = Pipeline.from_yaml(PIPELINE).plan({"SITE": sys.argv[1]})
    began = time.perf_counter()
    spark = start_session(f"local[{WORKERS}]", loads=plan.reads_files)
    started = time.perf_counter() - began
    cold, warm = run_pass(spark, plan), run_pass(spark, plan)
    print(json.dumps({"session": started, "cold": cold["seconds"], **warm}))
    spark.stop()


def run_pass(spark: SparkSession, plan: Plan) -> dict[str, float]:
    began = time.perf_counter()
    with Run(plan, RunContext(fetch=CrawlOptions(allow_networks=("127.0.0.1/32",)))) as run:
        rows = SparkRunner(run, spark).collect()
    made = rows.where("made IS NOT NULL").count()
    return {"rows": made, "seconds": time.perf_counter() - began}


if __name__ == "__main__":
    main()
