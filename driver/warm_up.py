"""Small jobs that load the parts most pipelines use: Spark's classes, the Python workers' modules, compiled code."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from pipelines.engine.run import Run
from pipelines.pipeline import Pipeline
from pipelines.spark.runner import SparkRunner

_CRAWL = """
fetch: {url: "http://127.0.0.1:9/"}
pipeline:
  - {stage: wgetJoin, args: ["a"]}
  - {stage: extract, args: [{selector: h1, method: text, as: title}]}
  - {stage: dedup, args: [title]}
spindle: {maxFailureRatio: 1, robots: ignore}
"""
_TABLE = """
pipeline:
  - {stage: load_csv, args: [{path: "${FILE}", header: true}]}
"""


def run_small_jobs(spark: SparkSession, preview_rows: int = 0) -> None:
    """Run a crawl without pages and a table of one row, and delete their files."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        table = Path(folder) / "table.csv"
        table.write_text("name,price\na,1\n")
        for number, text in enumerate((_CRAWL, _TABLE)):
            with Run(Pipeline.from_yaml(text).plan({"FILE": str(table)}), preview_rows=preview_rows) as run:
                SparkRunner(run, spark).write(f"{folder}/{number}")
