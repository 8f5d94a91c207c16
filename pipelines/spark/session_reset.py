"""Removal of the traces of a run in Spark, so that another one can follow in the same JVM."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import psutil
from pyspark.sql import SparkSession

from pipelines.spark.observations import wait_for_listeners
from pipelines.spark.session import drop_functions

_DAEMON = "pipelines.spark.daemon"
_KILL_SECONDS, _TASK_SECONDS, _POLL_SECONDS = 5.0, 5.0, 0.02


def reset_session(spark: SparkSession) -> SparkSession:
    """Return a session without the views, functions, settings and cached rows of `spark`, in the same JVM.

    Kills the Python workers: they have imported the code of users. Raises TimeoutError when a task does not end.
    """
    java: Any = spark
    context = spark.sparkContext
    context.cancelAllJobs()
    _await_tasks(spark)
    spark.catalog.clearCache()
    for rows in context._jsc.getPersistentRDDs().values():  # pyright: ignore
        rows.unpersist()
    kill_workers(_get_pid(spark))
    session = spark.newSession()
    jvm, of_java = java._jvm, session._jsparkSession  # pyright: ignore
    jvm.SparkSession.setDefaultSession(of_java)
    jvm.SparkSession.setActiveSession(of_java)
    SparkSession._instantiatedSession = SparkSession._activeSession = session  # pyright: ignore
    drop_functions(session)
    return session


def kill_workers(jvm: int) -> None:
    """Kill the Python workers of this JVM with all that they have started, but not the daemon that forks them."""
    for child in psutil.Process(jvm).children():
        with suppress(psutil.Error):  # it has just ended
            workers = child.children(recursive=True) if _DAEMON in child.cmdline() else []
            for worker in workers:
                with suppress(psutil.NoSuchProcess):
                    worker.kill()
            psutil.wait_procs(workers, timeout=_KILL_SECONDS)


def _await_tasks(spark: SparkSession) -> None:
    """Wait for the end of tasks whose rows nobody needs any more, as behind a limit: they may start workers."""
    java: Any = spark.sparkContext
    store, deadline = java._jsc.sc().statusStore(), time.monotonic() + _TASK_SECONDS
    while True:
        wait_for_listeners(spark)
        executors = store.executorList(True)
        if not any(executors.apply(index).activeTasks() for index in range(executors.size())):
            return
        if time.monotonic() > deadline:
            raise TimeoutError("tasks of the execution still run")
        time.sleep(_POLL_SECONDS)


def measure_heap(spark: SparkSession) -> float:
    """Return the share of the JVM's heap that is in use after a collection of garbage."""
    java: Any = spark
    runtime = java._jvm.java.lang.Runtime.getRuntime()
    java._jvm.java.lang.System.gc()
    return (runtime.totalMemory() - runtime.freeMemory()) / runtime.maxMemory()


def write_to_log(spark: SparkSession, line: str) -> None:
    """Let the JVM write a line to its log, after all that it has written."""
    java: Any = spark
    java._jvm.java.lang.System.err.println(line)


def _get_pid(spark: SparkSession) -> int:
    java: Any = spark
    return int(java._jvm.java.lang.ProcessHandle.current().pid())
