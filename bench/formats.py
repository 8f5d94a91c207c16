"""Writing Delta and Iceberg tables beside bare PySpark, in one session: python -m bench.formats [ROWS] [ROUNDS]

Both read the same Parquet file and write all its rows as a new table. Ours also checks and counts the rows, collects
the first ones as a preview, and reads the committed version's snapshot, rows and bytes.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.contract.request import OUTPUT, Target
from pipelines.engine.run import Run
from pipelines.pipeline import Pipeline
from pipelines.spark.runner import SparkRunner
from pipelines.spark.session import start_session

FORMATS = ("delta", "iceberg")


def main(rows: int = 2_000_000, rounds: int = 3) -> None:
    spark = start_session("local[2]", "bench", {"spark.driver.memory": "4g"}, libraries=FORMATS)
    spark.conf.set("spark.sql.catalog.bare", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.bare.type", "hadoop")
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        spark.conf.set("spark.sql.catalog.bare.warehouse", f"{folder}/bare-iceberg")
        spark.sql(
            f"SELECT id, concat('name ', id % 1000) AS name, id * 0.5D AS price, timestamp_seconds(id) AS at, "
            f"uuid() AS text FROM range({rows})"
        ).write.parquet(f"{folder}/input")
        for format_ in FORMATS:
            bare: list[float] = []
            ours: list[float] = []
            for number in range(rounds + 1):  # the first is not counted
                bare.append(measure(lambda n=number, f=format_: write_bare(spark, folder, f, n)))
                ours.append(measure(lambda n=number, f=format_: write_ours(spark, folder, f, n)))
                spark.catalog.clearCache()
            ratio = statistics.median(ours[1:]) / statistics.median(bare[1:])
            listed = ", ".join(f"{b:.2f}/{o:.2f}" for b, o in zip(bare[1:], ours[1:], strict=True))
            print(f"{format_}: {rows:,} rows, bare/ours in s: {listed}; ratio of medians {ratio:.2f}", flush=True)
    spark.stop()


def measure(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def write_bare(spark: SparkSession, folder: Path, format_: str, number: int) -> None:
    rows = spark.read.parquet(f"{folder}/input")
    if format_ == "delta":
        rows.write.format("delta").save(f"{folder}/bare-delta/{number}")
    else:
        rows.writeTo(f"bare.t.n{number}").using("iceberg").create()


def write_ours(spark: SparkSession, folder: Path, format_: str, number: int) -> None:
    text = f"pipeline: [{{stage: load_parquet, args: ['{folder}/input']}}]\noutput: {{format: {format_}}}"
    target = Target(location=f"{folder}/ours/{number}/{format_}")
    with Run(Pipeline.from_yaml(text).plan(), RunContext(targets={OUTPUT: target}, author="bench"), 20) as run:
        SparkRunner(run, spark).write("unused")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
