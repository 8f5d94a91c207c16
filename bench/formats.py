"""Writing Delta and Iceberg tables beside bare PySpark, in one session: python -m bench.formats [ROWS] [ROUNDS]

Both read the same Parquet file and write all its rows as a new table, then those of the join of bench.tables, which is
ours in Trino's SQL. Ours also checks and counts the rows, collects the first ones as a preview, and reads the committed
version's snapshot, rows and bytes.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession

from bench.tables import plan_join, read_join, write_offers
from pipelines.contract.context import RunContext
from pipelines.contract.request import OUTPUT, Target
from pipelines.engine.run import Run
from pipelines.pipeline import Pipeline
from pipelines.planning.plan import Plan
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
        write_offers(spark, folder, rows)
        for format_, is_join in product(FORMATS, (False, True)):
            bare: list[float] = []
            ours: list[float] = []
            plan = plan_join(folder, "trino", format_) if is_join else plan_copy(folder, format_)
            for number in range(rounds + 1):  # the first is not counted
                label = f"{'join' if is_join else 'copy'}{number}"
                read = read_join(spark, folder) if is_join else spark.read.parquet(f"{folder}/input")
                bare.append(measure(partial(write_bare, read, folder, format_, label)))
                ours.append(measure(partial(write_ours, spark, folder, plan, label)))
                spark.catalog.clearCache()
            ratio = statistics.median(ours[1:]) / statistics.median(bare[1:])
            listed = ", ".join(f"{b:.2f}/{o:.2f}" for b, o in zip(bare[1:], ours[1:], strict=True))
            title = f"{format_}: {'join of ' if is_join else ''}{rows:,} rows"
            print(f"{title}, bare/ours in s: {listed}; ratio of medians {ratio:.2f}", flush=True)
    spark.stop()


def measure(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def write_bare(rows: DataFrame, folder: Path, format_: str, name: str) -> None:
    if format_ == "delta":
        rows.write.format("delta").save(f"{folder}/bare-delta/{name}")
    else:
        rows.writeTo(f"bare.t.{name}").using("iceberg").create()


def plan_copy(folder: Path, format_: str) -> Plan:
    text = f"pipeline: [{{stage: load_parquet, args: ['{folder}/input']}}]\noutput: {{format: {format_}}}"
    return Pipeline.from_yaml(text).plan()


def write_ours(spark: SparkSession, folder: Path, plan: Plan, name: str) -> None:
    target = Target(location=f"{folder}/ours/{name}/{plan.output.format}")
    with Run(plan, RunContext(targets={OUTPUT: target}, author="bench"), 20) as run:
        SparkRunner(run, spark).write("unused")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
