"""What Spark and the operating system counted, against what was really done."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from driver.resource_usage import Usage, UsageMeter, measure_usage
from driver.spark_status import SparkStatus, count_most
from tests.support.service import PATIENCE_SECONDS, wait_until

BUSY = "import time; end = time.process_time() + 0.4\nwhile time.process_time() < end: pass"


@pytest.mark.long
def test_spark_counts_rows_and_bytes_read_and_written(spark: SparkSession, tmp_path: Path) -> None:
    status = SparkStatus(spark.sparkContext)
    (tmp_path / "in.csv").write_text("a,b\n" + "1,x\n" * 50_000)
    size = (tmp_path / "in.csv").stat().st_size
    before = status.read()
    rows = spark.read.csv(f"file:{tmp_path}/in.csv", header=True).persist()
    rows.write.parquet(f"file:{tmp_path}/out")
    after = status.read()
    written = sum(file.stat().st_size for file in (tmp_path / "out").glob("*.parquet"))
    assert after.bytes_written - before.bytes_written == written
    assert size <= after.bytes_read - before.bytes_read <= 3 * size
    assert after.tasks > before.tasks
    assert after.cpu > before.cpu
    assert (after.executors, after.executor_seconds) == (1, 0)
    rows.count()
    again = status.read()
    assert again.bytes_read == after.bytes_read, "rows that are cached are not read from storage"
    assert again.bytes_written == after.bytes_written, "stages that have ended are counted once"
    rows.unpersist()
    spark.read.parquet(f"file:{tmp_path}/out").selectExpr("max(a)", "max(b)").collect()
    assert status.read().bytes_read - again.bytes_read >= written / 2


@pytest.mark.long
def test_a_jvm_is_the_drivers_and_all_other_descendants_are_workers(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.symlink_to(Path(sys.executable).resolve())
    worker = [sys.executable, "-c", BUSY + "\ninput()"]
    jvm = [str(java), "-c", f"import subprocess\n{BUSY}\nsubprocess.run({worker!r})"]
    driver = f"import subprocess\nsubprocess.run({jvm!r})\ninput()"  # of its own: pytest has Spark's JVM as a child
    with subprocess.Popen([sys.executable, "-c", driver], stdin=subprocess.PIPE) as process:
        now = until(process.pid, lambda now: now.worker_cpu >= 0.3)
        assert now.driver_cpu >= 0.3
        assert now.worker_memory >= 2 * 2**20
        assert now.driver_memory >= 2 * 2 * 2**20
        process.stdin.write(b"\n")
        process.stdin.flush()
        # what has ended is counted with who waited for it, as soon as that has waited
        until(process.pid, lambda now: now.worker_memory == 0 and now.driver_cpu >= 0.6)
        process.communicate(b"\n")


def until(pid: int, reached: Callable[[Usage], bool]) -> Usage:
    """The first sample of a process and its descendants that has reached what is waited for."""
    samples: list[Usage | None] = []

    def measure() -> bool:
        samples.append(measure_usage(pid))
        return (now := samples[-1]) is not None and reached(now)

    wait_until(measure, PATIENCE_SECONDS)
    assert samples[-1]
    return samples[-1]


def test_a_process_that_is_not_there_is_not_measured() -> None:
    assert measure_usage(2**22 + 1) is None


def test_a_meter_reports_only_known_values() -> None:
    assert UsageMeter().get_report_fields() == {"metrics": {}}
    with UsageMeter() as meter:
        meter.finish()
    fields = meter.get_report_fields()
    assert fields["driverMemoryUsedBytes"] > 10 * 2**20
    assert "executorCount" not in fields
    assert "recordsProcessed" not in fields


def test_executors_that_follow_one_another_are_no_more_than_work_at_once() -> None:
    assert count_most([]) == 0
    assert count_most([(0, 10), (10, 20), (5, 8)]) == 2
