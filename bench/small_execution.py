"""A 20-row execution beside the same work as a script with spark-submit: `python -m bench.small_execution [ROUNDS]`.

Warm (a driver is ready), back to back, ten and a hundred at once, and the first of a cold service.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median

import psutil

from bench.service import CLONE, Service, create_job, describe_machine, post, run_spindle, wait_until_completed

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
AT_ONCE, MANY = 10, 100
MANY_POLL_SECONDS = 7.0  # longer than the server keeps an idle connection, 5 s: it would close them as they are used
READY_SECONDS = 300
PARTS = ("accepted", "launched", "claimed", "running", "session ready", "completed")
SCRIPT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").getOrCreate()
rows = spark.read.csv(sys.argv[1], header=True)
rows.createOrReplaceTempView("rows")
prices = "avg(CAST(price AS double)) AS price"
counted = spark.sql(f"SELECT category, count(*) AS products, {prices} FROM rows GROUP BY category")
counted.write.mode("overwrite").parquet(sys.argv[2])
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
        with run_service(folder, spares=1) as (service, job):
            measure_execution(service, job)  # imports and caches of the service itself
            rounds = [measure_round(service, job, inputs) for _ in range(ROUNDS)]
            report("warm", [(warm, bare) for warm, _, bare in rounds])
            report("back to back", [(next_, bare) for _, next_, bare in rounds])
            wait_for_spare(service)
            report_at_once(service, job, inputs)
            report_many(service, job)
        cold: list[tuple[dict[str, float], float]] = []
        for _ in range(ROUNDS):
            with run_service(folder, spares=0) as (service, job):
                cold.append((measure_execution(service, job), measure_spark_submit(inputs)))
        report("cold", cold)


@contextmanager
def run_service(folder: str, spares: int) -> Generator[tuple[Service, str]]:
    settings = {"SPINDLE_LOCAL_FOLDERS": folder, "SPINDLE_SPARE_DRIVERS": str(spares)}
    with run_spindle(settings) as service:
        yield service, create_job(service.client, "small", build_pipeline(Path(folder) / "products.csv"))


def measure_round(service: Service, job: str, inputs: Inputs) -> tuple[dict[str, float], dict[str, float], float]:
    """Return the phases with a ready spare, those of the next execution at once, and the seconds of spark-submit."""
    wait_for_spare(service)
    warm, following = measure_execution(service, job), measure_execution(service, job)
    wait_for_spare(service)  # its start shall not slow spark-submit
    return warm, following, measure_spark_submit(inputs)


def wait_for_spare(service: Service) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not any((path.parent / "socket").exists() for path in service.data.glob("scratch/spare-*/ready")):
        if time.monotonic() > deadline:
            raise SystemExit("no spare driver became ready")
        time.sleep(0.05)


def report_at_once(service: Service, job: str, inputs: Inputs) -> None:
    """Run ten executions at once, then ten spark-submits at once; print their seconds and the memory they needed."""

    def submit(number: int) -> None:
        run_spark_submit(inputs, inputs.output.with_name(f"bare-{number}.parquet"))

    for name, run in (("Spindle", partial(execute, service, job, 0.5)), ("spark-submit", submit)):
        (last, each), peak = measure_peak(partial(run_at_once, run, AT_ONCE))
        print(f"{AT_ONCE} at once, {name}: all after {last:.1f} s, median {each:.1f} s, {peak / 2**20:,.0f} MiB more")


def report_many(service: Service, job: str) -> None:
    """Run a hundred executions that are accepted at once, as schedules of the same minute are."""
    last, each = run_at_once(partial(execute, service, job, MANY_POLL_SECONDS), MANY)
    print(f"{MANY} at once, Spindle: all after {last:.1f} s, median {each:.1f} s, {60 * MANY / last:.0f} a minute")


def execute(service: Service, job: str, poll_seconds: float, _: int) -> None:
    execution = post(service.client, f"{job}/execute?queue=true", {})["executionId"]
    wait_until_completed(service.client, job, execution, poll_seconds=poll_seconds)


def run_at_once(run: Callable[[int], None], number: int) -> tuple[float, float]:
    """Return the seconds until the last and in the median."""
    began = time.perf_counter()

    def measure(number: int) -> float:
        run(number)
        return time.perf_counter() - began

    with ThreadPoolExecutor(number) as pool:
        seconds = [*pool.map(measure, range(number))]
    return max(seconds), median(seconds)


def measure_peak(run: Callable[[], tuple[float, float]]) -> tuple[tuple[float, float], int]:
    """Return the result, and by how many bytes the memory (PSS) of this process's descendants grew meanwhile."""
    before, peak, ended = measure_memory(), 0, threading.Event()

    def sample() -> None:
        nonlocal peak
        while not ended.wait(0.5):
            peak = max(peak, measure_memory())

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        result = run()
    finally:
        ended.set()
        thread.join()
    return result, peak - before


def measure_memory() -> int:
    total = 0
    for process in psutil.Process().children(recursive=True):
        try:
            total += process.memory_full_info().pss
        except psutil.Error:
            continue
    return total


def prepare(folder: Path) -> Inputs:
    lines = (CLONE / "examples/shop/products.csv").read_text().splitlines(keepends=True)
    inputs = Inputs(folder / "products.csv", folder / "bare.py", folder / "bare.parquet")
    inputs.csv.write_text("".join(lines[:21]))
    inputs.script.write_text(SCRIPT)
    return inputs


def build_pipeline(csv: Path) -> str:
    return f"""
pipeline:
  - {{stage: load_csv, args: [{{path: '{csv}', header: true}}]}}
  - stage: sql_query
    args: ["SELECT category, count(*) AS products, avg(CAST(price AS double)) AS price FROM rows GROUP BY category"]
"""


def measure_execution(service: Service, job: str) -> dict[str, float]:
    """Return the seconds from the call to the end of each phase."""
    called = datetime.now(UTC)
    execution = post(service.client, f"{job}/execute", {})["executionId"]
    accepted = datetime.now(UTC)
    wait_until_completed(service.client, job, execution)
    times = {"accepted": accepted, **read_stored_times(service, job, execution), "seen completed": datetime.now(UTC)}
    return {part: (moment - called).total_seconds() for part, moment in times.items()}


def read_stored_times(service: Service, job: str, execution: str) -> dict[str, datetime]:
    sql = """SELECT o.processed_at, e.claimed_at, e.started_at, e.completed_at
             FROM executions e JOIN outbox o ON o.execution_id = e.id WHERE e.id = ?"""
    database = sqlite3.connect(next(service.data.glob("*.db")))
    launched, claimed, running, completed = database.execute(sql, (execution,)).fetchone()
    database.close()
    stored = {"launched": launched, "claimed": claimed, "running": running, "completed": completed}
    times = {part: datetime.fromisoformat(text).replace(tzinfo=UTC) for part, text in stored.items()}
    return times | {"session ready": read_session_ready(service, job, execution)}


def read_session_ready(service: Service, job: str, execution: str) -> datetime:
    """Return when the driver logged the start of Spark."""
    answer = service.client.get(f"{job}/executions/{execution}/logs", params={"tail": 1000}).raise_for_status()
    words = (line.split(maxsplit=3) for line in answer.json()["logs"])
    return next(datetime.fromisoformat(each[0]) for each in words if each[1:3] == ["INFO", "started"])


def measure_spark_submit(inputs: Inputs) -> float:
    began = time.perf_counter()
    run_spark_submit(inputs, inputs.output)
    return time.perf_counter() - began


def run_spark_submit(inputs: Inputs, output: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["spark-submit", inputs.script, inputs.csv, output]
    subprocess.run(command, env={**os.environ, "PATH": path}, check=True, capture_output=True)


def report(title: str, rounds: list[tuple[dict[str, float], float]]) -> None:
    print(f"{title}, seconds after the call, median of {len(rounds)}")
    for part in (*PARTS, "seen completed"):
        print(f"  {part:<24}{median(parts[part] for parts, _ in rounds):>8.2f}")
    print(f"  {'bare spark-submit':<24}{median(seconds for _, seconds in rounds):>8.2f}")
    ratios = sorted(parts["completed"] / seconds for parts, seconds in rounds)
    print(f"  completed / spark-submit {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)


if __name__ == "__main__":
    main()
