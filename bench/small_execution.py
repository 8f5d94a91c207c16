"""The phases of a 20-row load_csv execution: `python -m bench.small_execution`.

It takes turns with a script that does the same work with spark-submit.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench.service import CLONE, Service, create_job, describe_machine, post, run_spindle, wait_until_completed

ROUNDS = 5
PARTS = ("accepted", "launched", "claimed", "running", "session ready", "completed")
SCRIPT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").getOrCreate()
rows = spark.read.csv(sys.argv[1], header=True)
rows.write.mode("overwrite").parquet(sys.argv[2])
"""


@dataclass(frozen=True, slots=True)
class Inputs:
    csv: Path
    script: Path
    output: Path


def main() -> None:
    print(describe_machine())
    with tempfile.TemporaryDirectory(prefix="spindle-bench-") as folder:
        inputs = prepare(Path(folder))
        with run_spindle({"SPINDLE_LOCAL_FOLDERS": folder}) as service:
            job = create_job(service.client, "small", build_pipeline(inputs.csv))
            rounds = [(measure_execution(service, job), measure_spark_submit(inputs)) for _ in range(ROUNDS)]
    report(rounds)


def prepare(folder: Path) -> Inputs:
    lines = (CLONE / "examples/shop/products.csv").read_text().splitlines(keepends=True)
    inputs = Inputs(folder / "products.csv", folder / "bare.py", folder / "bare.parquet")
    inputs.csv.write_text("".join(lines[:21]))
    inputs.script.write_text(SCRIPT)
    return inputs


def build_pipeline(csv: Path) -> str:
    return f"pipeline:\n  - stage: load_csv\n    args: [{{path: '{csv}', header: true}}]\n"


def measure_execution(service: Service, job: str) -> dict[str, float]:
    """Return the seconds from the call to the end of each phase."""
    called = datetime.now(UTC)
    execution = post(service.client, f"{job}/execute", {})["executionId"]
    accepted = datetime.now(UTC)
    wait_until_completed(service.client, job, execution)
    times = {"accepted": accepted, **read_stored_times(service.data, execution), "seen completed": datetime.now(UTC)}
    return {part: (moment - called).total_seconds() for part, moment in times.items()}


def read_stored_times(data: Path, execution: str) -> dict[str, datetime]:
    sql = """SELECT o.processed_at, e.claimed_at, e.started_at, e.completed_at
             FROM executions e JOIN outbox o ON o.execution_id = e.id WHERE e.id = ?"""
    database = sqlite3.connect(next(data.glob("*.db")))
    launched, claimed, running, completed = database.execute(sql, (execution,)).fetchone()
    database.close()
    stored = {"launched": launched, "claimed": claimed, "running": running, "completed": completed}
    times = {part: datetime.fromisoformat(text).replace(tzinfo=UTC) for part, text in stored.items()}
    return times | {"session ready": read_session_ready(data, execution)}


def read_session_ready(data: Path, execution: str) -> datetime:
    """Return when the driver logged the start of Spark."""
    (log,) = data.glob(f"storage/*/executions/{execution}/*/driver.log")
    entries = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
    return next(datetime.fromisoformat(entry["timestamp"]) for entry in entries if entry["event"] == "started")


def measure_spark_submit(inputs: Inputs) -> float:
    began = time.perf_counter()
    command = ["spark-submit", inputs.script, inputs.csv, inputs.output]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(command, env={**os.environ, "PATH": path}, check=True, capture_output=True)
    return time.perf_counter() - began


def report(rounds: list[tuple[dict[str, float], float]]) -> None:
    (first, _), later = rounds[0], rounds[1:]
    print(f"{'seconds after the call':<26}{'first':>8}{f'median of {len(later)}':>14}")
    for part in (*PARTS, "seen completed"):
        print(f"{part:<26}{first[part]:>8.2f}{median(parts[part] for parts, _ in later):>14.2f}")
    bare = median(seconds for _, seconds in rounds)
    print(f"{'bare spark-submit':<26}{rounds[0][1]:>8.2f}{bare:>14.2f}")
    print(f"completed / spark-submit: {median(parts['completed'] for parts, _ in later) / bare:.2f}")


if __name__ == "__main__":
    main()
