"""Spark in a driver: its start, the plan's run on it, and its end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from driver.event_log import EventLog
from driver.logs import EXECUTOR_LINE
from driver.progress import RunProgress
from driver.report import Reporter
from driver.resource_usage import UsageMeter
from driver.spark_status import SparkStatus
from pipelines.contract.report import RunResult
from pipelines.contract.request import RunRequest
from pipelines.engine.partial_run import PartialRun
from pipelines.engine.run import Run
from pipelines.language.engines import EngineName
from pipelines.spark.cluster import read_executor_logs
from pipelines.spark.runner import SparkRunner
from pipelines.spark.session import start_session

StartedSpark = tuple[SparkSession, SparkStatus]
WarmSpark = Future[StartedSpark]  # started before the execution, or just starting


def write_with_spark(
    spec: RunRequest,
    run: Run,
    progress: RunProgress,
    reporter: Reporter,
    meter: UsageMeter,
    mask: Callable[[Any], Any],
    warm: WarmSpark | None = None,
    partial_run: PartialRun | None = None,
) -> RunResult:
    """Write the output of the run with Spark, which starts unless there is a warm session.

    `mask` replaces the secrets in Spark's event log.
    """
    spark, status = warm.result() if warm else _start_spark(spec, run)
    progress.set_started()
    meter.watch_spark(status)
    reporter.report_start(EngineName.SPARK, spark.sparkContext.uiWebUrl)
    event_log = EventLog(spec.event_log, spark, spec, mask) if spec.event_log else None
    try:
        return SparkRunner(run, spark, partial_run).write(spec.output.path)
    finally:
        _copy_executor_logs(spark.sparkContext)
        if event_log:
            event_log.store()


def _start_spark(spec: RunRequest, run: Run) -> StartedSpark:
    own = spec.spark
    spark = start_session(own.master, spec.job_name, own.conf, run.plan.reads_files, own.libraries)
    return spark, SparkStatus(spark.sparkContext)


def _copy_executor_logs(context: SparkContext) -> None:
    """Write the logs of executors on other machines into the driver's own."""
    with suppress(Py4JError):  # the JVM has ended
        for executor, text in read_executor_logs(context):
            sys.stdout.writelines(f"{EXECUTOR_LINE.format(executor)}{line}\n" for line in text.splitlines())
    sys.stdout.flush()


def kill_spark() -> None:
    """Terminate the JVM, and so the Python workers."""
    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    if gateway is not None:
        gateway.proc.terminate()
        gateway.proc.wait(timeout=10)


def is_spark_alive() -> bool:
    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    return gateway is not None and gateway.proc.poll() is None
