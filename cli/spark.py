"""Spark for `spindle run`, with Ctrl-C."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Generator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkstemp

from pyspark.sql import SparkSession
from rich.console import Console

from cli.output import CollectedRows
from core.infra.settings import Settings
from pipelines.engine.partial_run import PartialRun
from pipelines.engine.run import Run
from pipelines.errors import SparkEnded
from pipelines.filesystem import find_table_format
from pipelines.language.formats import list_format_libraries
from pipelines.planning.plan import Plan
from pipelines.spark.failures import is_spark_gone
from pipelines.spark.jars import require_jars
from pipelines.spark.runner import SparkRunner
from pipelines.spark.session import start_session

_STOP_SECONDS = 20


@contextmanager
def open_spark(console: Console, plan: Plan, access: Mapping[str, str]) -> Generator[SparkSession]:
    """Start Spark with the Java libraries of the plan, and stop it in the end; `access` are variables for buckets."""
    with console.status("fetching Java libraries"):
        require_jars(_list_libraries(plan))
    with _keep_log_of_failure() as log:
        with console.status("starting Spark"):
            spark = _start_spark(plan, log)
        # not before: Python workers, which run users' functions, have the variables of the start
        os.environ.update(access)
        with _stop_on_interrupt(spark):
            yield spark
        spark.stop()


def collect_rows(spark: SparkSession, run: Run, partial_run: PartialRun | None, most: int | None) -> CollectedRows:
    """Return the output rows in document order, all or at most so many."""
    runner = SparkRunner(run, spark, partial_run)
    rows = runner.collect_ordered()
    rejected = None if runner.rejected is None else runner.rejected.toArrow()
    return CollectedRows((rows if most is None else rows.limit(most)).toArrow(), rows.count(), rejected)


@contextmanager
def _keep_log_of_failure() -> Generator[Path]:
    """Provide a file for Spark's log, and delete it in the end unless Spark has ended unexpectedly."""
    number, name = mkstemp(prefix="spindle-spark-", suffix=".log")
    os.close(number)
    log = Path(name)
    keeps = False
    try:
        yield log
    except Exception as error:
        keeps = isinstance(error, SparkEnded) or is_spark_gone(error)
        raise
    finally:
        if not keeps:
            log.unlink()


def _list_libraries(plan: Plan) -> frozenset[str]:
    """Return the Java libraries of the plan, and those for the local tables that its stages name."""
    names = (name for step in plan.steps if step.stage for name in step.stage.list_tables())
    return plan.libraries.union(*(list_format_libraries(find_table_format(name)) for name in names))


def _start_spark(plan: Plan, log: Path) -> SparkSession:
    """Start Spark, with the heap of a server's drivers.

    It starts in another thread: in the main one, PySpark's handler of Ctrl-C would interrupt its own calls.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)  # it logs connections that end; calls raise errors
    # all rows are collected, part by part
    conf = {"spark.driver.memory": Settings().spark.driver_memory, "spark.driver.maxResultSize": "0"}
    started: Future[SparkSession] = Future()
    stderr = os.dup(sys.stderr.fileno())

    def start() -> None:
        try:
            started.set_result(start_session(conf=conf, libraries=_list_libraries(plan), log=log))
        except Exception as error:
            started.set_exception(error)

    threading.Thread(target=start, name="start of Spark", daemon=True).start()
    try:
        spark = started.result()
    except KeyboardInterrupt:
        os.dup2(stderr, sys.stderr.fileno())  # the thread, which goes on until the process ends, filters it
        raise
    finally:
        os.close(stderr)
    return spark


@contextmanager
def _stop_on_interrupt(spark: SparkSession) -> Generator[None]:
    """On Ctrl-C, stop Spark before the rest, without its log lines about cancelled jobs."""
    logging.getLogger().addFilter(_is_no_interrupt)
    try:
        yield
    except KeyboardInterrupt:
        # another thread has another connection: this one still waits for the answer to the interrupted call
        thread = threading.Thread(target=_stop_quietly, args=(spark,), daemon=True)
        thread.start()
        thread.join(_STOP_SECONDS)
        raise


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Return whether a record is something else than the trace that py4j logs of an interrupted call."""
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt))


def _stop_quietly(spark: SparkSession) -> None:
    spark.sparkContext.setLogLevel("OFF")
    spark.stop()
