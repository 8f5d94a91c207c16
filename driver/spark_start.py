"""The start of Spark in a host, and of a small job where no execution waits for it, in a thread of low priority."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from driver.host_folder import READY
from driver.resource_usage import Usage, measure_usage
from driver.spark_run import WarmSpark, is_spark_alive
from driver.spark_status import SparkStatus
from driver.warm_up import run_small_jobs
from pipelines.contract.request import SparkSpec
from pipelines.registry import load_plugins
from pipelines.spark.session import start_session

_NICENESS = 5  # a third of the share of others
_QUIET_SECONDS = 5.0  # before a start that cannot have a low priority
_CANCEL_SECONDS = 0.1  # until the small jobs that have begun since are cancelled too
_PREVIEW_ROWS = 20
_APPLICATION = "spindle"


class SparkStart:
    """A start with these settings, whose temporary files are in the folder.

    An execution that is received during it waits for Spark only, and the priority becomes that of other drivers.
    """

    def __init__(self, spec: SparkSpec, memory: str | None, folder: Path) -> None:
        self._spec = spec
        self._conf = {**spec.conf, **({"spark.driver.memory": memory} if memory else {})}
        self._folder = folder
        self._priority = _Priority()
        self._thread = threading.Thread(target=self._run, name="start", daemon=True)
        self._is_hurried = threading.Event()
        self._is_cancelled = False
        self.session: WarmSpark = Future()
        self.usage = Usage()

    def begin(self) -> None:
        self._thread.start()

    def hurry(self) -> None:
        """Let Spark start fast, for an execution."""
        self._is_hurried.set()
        if self._thread.ident is None:
            self._thread.start()
        self._priority.restore()

    def finish(self) -> None:
        """Cancel the small jobs: to empty Spark's cache while one of them runs is a deadlock inside Spark."""
        self._is_cancelled = True
        while self._thread.is_alive() and is_spark_alive():
            self.session.result()[0].sparkContext.cancelAllJobs()
            self._thread.join(_CANCEL_SECONDS)

    def _run(self) -> None:
        if not self._is_hurried.is_set() and not self._priority.lower():
            self._is_hurried.wait(_QUIET_SECONDS)
        try:
            load_plugins()
            spark = start_session(self._spec.master, _APPLICATION, self._conf, libraries=self._spec.libraries)
            status = SparkStatus(spark.sparkContext)
        except BaseException as error:
            self.session.set_exception(error)
            return
        self.session.set_result((spark, status))
        try:
            self._warm_up(spark, status)
        finally:
            self._priority.restore()
        (self._folder / READY).touch()

    def _warm_up(self, spark: SparkSession, status: SparkStatus) -> None:
        if not self._is_hurried.is_set():
            try:
                run_small_jobs(spark, _PREVIEW_ROWS)
            except Exception:
                if self._is_cancelled:
                    return
                raise
        if not self._is_hurried.is_set():
            status.reset()
            self.usage = measure_usage(os.getpid()) or self.usage


class _Priority:
    """A low priority while Spark starts, where it may have its own again."""

    def __init__(self) -> None:
        self._own = os.getpriority(os.PRIO_PROCESS, 0)
        self._is_low = False

    def lower(self) -> bool:
        """Lower that of this thread, which new ones inherit; return False where it could not be restored."""
        self._is_low = _can_restore_priority()
        if self._is_low:
            os.setpriority(os.PRIO_PROCESS, 0, self._own + _NICENESS)
        return self._is_low

    def restore(self) -> None:
        """Give their own priority to all threads of this process and its descendants."""
        process = psutil.Process()
        for _ in range(2 if self._is_low else 0):  # a thread may have started others since
            for each in (process, *process.children(recursive=True)):
                with suppress(OSError):  # it has ended
                    for thread in Path(f"/proc/{each.pid}/task").iterdir():
                        os.setpriority(os.PRIO_PROCESS, int(thread.name), self._own)
        self._is_low = False


def _can_restore_priority() -> bool:
    """Try it in a thread, whose priority is not the process's on Linux."""
    results: list[bool] = []

    def lower_and_raise() -> None:
        thread, before = threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0)
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, before + 1)
            os.setpriority(os.PRIO_PROCESS, thread, before)
            results.append(True)

    trial = threading.Thread(target=lower_and_raise)
    trial.start()
    trial.join()
    return bool(results)
