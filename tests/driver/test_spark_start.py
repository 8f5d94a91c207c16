"""The start of Spark in a host, whose small jobs may still run when an execution has ended."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from driver import spark_start
from driver.host_folder import READY
from pipelines.contract.request import SparkSpec


@pytest.mark.long
def test_small_jobs_have_ended_before_the_driver_is_renewed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, ends = threading.Event(), []

    def run_long_jobs(session: SparkSession, _rows: int) -> None:
        running.set()
        for _ in range(2):  # the second one begins after the first was cancelled
            try:
                session.range(2).foreach(lambda _: time.sleep(600))
            except Exception as error:
                ends.append(type(error).__name__)
        raise RuntimeError("cancelled")

    def start_session(*_: object, **_options: object) -> SparkSession:
        return spark

    monkeypatch.setattr(spark_start, "start_session", start_session)
    monkeypatch.setattr(spark_start, "run_small_jobs", run_long_jobs)
    start = spark_start.SparkStart(SparkSpec(master="local[2]"), "1g", tmp_path)
    start.begin()
    assert running.wait(60)

    start.finish()
    assert len(ends) == 2
    assert not [each for each in threading.enumerate() if each.name == "start"]
    assert (tmp_path / READY).exists(), "it has served an execution"
    assert spark.range(3).count() == 3
