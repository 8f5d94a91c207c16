"""What Spark and the operating system counted, against what was really done."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from pipelines.runner.meter import Meter
from pipelines.runner.processes import sample
from pipelines.runner.spark_status import SparkStatus

BUSY = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"


def test_spark_counts_what_was_read_and_written(spark: SparkSession, tmp_path: Path) -> None:
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


def test_children_are_the_drivers_and_their_children_workers() -> None:
    child = [sys.executable, "-c", BUSY + "\ninput()"]
    parent = f"import subprocess\n{BUSY}\nsubprocess.run({child!r})"
    before = sample(os.getpid())
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE) as process:
        deadline = time.monotonic() + 30
        while (now := sample(os.getpid())) and before and now.worker_cpu < before.worker_cpu + 0.3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert now is not None
        assert before is not None
        assert now.driver_cpu >= before.driver_cpu + 0.3
        assert now.worker_memory >= before.worker_memory + 2 * 2**20
        assert now.driver_memory >= before.driver_memory + 2 * 2**20
        process.communicate(b"\n")
    after = sample(os.getpid())
    assert after is not None
    assert after.driver_cpu >= before.driver_cpu + 0.6, "what has ended is counted with who waited for it"


def test_a_process_that_is_not_there_is_not_measured() -> None:
    assert sample(2**22 + 1) is None


def test_a_meter_tells_only_what_it_knows() -> None:
    assert Meter().fields() == {"metrics": {}}
    with Meter() as meter:
        meter.finish()
    fields = meter.fields()
    assert fields["driverMemoryUsedBytes"] > 10 * 2**20
    assert "executorCount" not in fields
    assert "recordsProcessed" not in fields
