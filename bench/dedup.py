"""load_csv → dedup → save_parquet of a million rows, compared with bare PySpark: `python -m bench.dedup`.

Both run in one session, in turn. A round prints seconds and CPU seconds of the JVM; the result is the ratio of the best
rounds.
Bare PySpark keeps any of several equal rows, Spindle the first; Spindle also caches and counts the rows.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from pipelines.pipeline import Pipeline
from pipelines.spark.session import start_session

ROWS = 1_000_000
DISTINCT = 600_000
ROUNDS = 5
PIPELINE = """
pipeline:
  - {stage: load_csv, args: ["${IN}"]}
  - {stage: dedup, args: [id]}
  - {stage: save_parquet, args: ["${OUT}"]}
"""


def main(rows: int) -> None:
    with TemporaryDirectory() as folder:
        source = Path(folder, "in.csv")
        _write(source, rows)
        spark = start_session("local[*]", "dedup")
        plan = {
            "bare": lambda out: _run_bare(spark, source, out),
            "spindle": lambda out: _run_spindle(spark, source, out),
        }
        best = _measure_best(spark, Path(folder), plan)
        spark.stop()
    for what in ("seconds", "CPU seconds"):
        bare, ours = best["bare"][what], best["spindle"][what]
        print(f"{what}: bare {bare:.2f}, spindle {ours:.2f}, ratio {ours / bare:.2f}")


def _measure_best(
    spark: SparkSession, folder: Path, runs: dict[str, Callable[[str], None]]
) -> dict[str, dict[str, float]]:
    best = {name: {"seconds": float("inf"), "CPU seconds": float("inf")} for name in runs}
    for number in range(ROUNDS):
        for name, run in runs.items():
            began, used = time.perf_counter(), _measure_cpu(spark)
            run(str(folder / f"{name}{number}"))
            took = {"seconds": time.perf_counter() - began, "CPU seconds": _measure_cpu(spark) - used}
            spark.catalog.clearCache()
            print(name, {what: round(value, 2) for what, value in took.items()}, flush=True)
            best[name] = {what: min(best[name][what], took[what]) for what in took}
    return best


def _run_bare(spark: SparkSession, source: Path, out: str) -> None:
    spark.read.csv(str(source), header=True).dropDuplicates(["id"]).write.parquet(out)


def _run_spindle(spark: SparkSession, source: Path, out: str) -> None:
    Pipeline.from_yaml(PIPELINE).run(spark, {"IN": str(source), "OUT": out})


def _measure_cpu(spark: SparkSession) -> float:
    """Return the CPU seconds of the JVM (Linux); there are no Python workers."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    fields = Path(f"/proc/{gateway.proc.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _write(path: Path, rows: int) -> None:
    choose = random.Random(1).randrange
    with path.open("w") as file:
        file.write("id,name,shop,price,url\n")
        for _ in range(rows):
            key = choose(DISTINCT * rows // ROWS)
            file.write(f"{key},product {key},shop {key % 50},{key % 1000}.99,https://shop.example/p/{key}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
