"""A spare driver: Spark started and one small job run before any execution, then the executions that take it.

The first one may be of any organization, and all that follow are of the same. Its folder, with a SpareSpec,
is its folder for temporary files too.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from driver.cancellation import is_cancelled, raise_cancelled
from driver.execution import COMPLETED, execute
from driver.logs import MaskedOutput
from driver.resource_usage import Usage, measure_usage
from driver.reuse import DriverReuse
from driver.spare_socket import (
    READY,
    SPARE_FILE,
    TAKEN,
    ReceivedRequest,
    SpareSocket,
    SpareSpec,
    name_cancel_mark,
    read_offer,
)
from driver.spark_run import WarmSpark, is_spark_alive, kill_spark
from driver.spark_status import SparkStatus
from pipelines.contract.request import RunRequest, read_request
from pipelines.registry import load_plugins
from pipelines.spark.session import start_session
from pipelines.warm_up import run_small_jobs

_NICENESS = 5  # a third of the share of others
_QUIET_SECONDS = 5.0  # before a start that cannot have a low priority
_CHECK_SECONDS = 1.0
_CLAIM_SECONDS = 10.0  # from a claim to the request
_CANCEL_SECONDS = 0.1  # until the small jobs that have begun since are cancelled too
_PREVIEW_ROWS = 20


def serve(folder: Path) -> int:
    """Start Spark, and run the executions that take this process one after another; 1 when Spark fails."""
    spec = read_offer(folder / SPARE_FILE)
    with MaskedOutput() as output:
        signal.signal(signal.SIGTERM, raise_cancelled)
        try:
            listener = SpareSocket(folder, _terminate)
            start = SparkStart(spec, listener, folder)
            start.begin()
            _await_request(listener, start.spark)
            if listener.received:
                return _serve(listener.received, folder, spec, output, start)
            kill_spark()
            return 1
        except BaseException as error:
            if not is_cancelled(error):
                raise
            kill_spark()
            return 128 + signal.SIGTERM


def _serve(
    taken: ReceivedRequest | None, folder: Path, spec: SpareSpec, output: MaskedOutput, start: SparkStart
) -> int:
    """Run this execution and those that follow in the same session's JVM; return the last one's exit code."""
    wait([start.spark])  # its files are the driver's own
    warm, used = start.spark, start.usage
    reuse, exit_code = DriverReuse(spec.executions, folder, output, frozenset({SPARE_FILE, TAKEN})), COMPLETED
    while taken is not None:
        execution = read_request(Path(taken.request.spec))
        _write_offer(folder, spec, execution)
        exit_code = _execute(taken, execution, output, warm, used)
        if warm.exception() is not None or not is_spark_alive():
            break
        start.finish()
        session = warm.result()[0]
        renewed = reuse.renew(session) if reuse.end(execution, exit_code, session) else None
        if renewed is None or not reuse.clean():
            break
        warm, used = Future(), measure_usage(os.getpid()) or Usage()
        warm.set_result(renewed)
        if not _release(folder, taken, execution):
            break
        listener = SpareSocket(folder, _terminate, spec.idle_seconds)
        _await_request(listener, warm)
        taken = listener.received
    kill_spark()
    return exit_code


def _write_offer(folder: Path, spec: SpareSpec, execution: RunRequest) -> None:
    """Write whose executions the driver serves from now on, and how many."""
    executions = spec.executions if execution.reuses_driver else 1
    offered = spec.model_copy(update={"organization_id": execution.organization_id, "executions": executions})
    draft = folder / f"{SPARE_FILE}.new"
    draft.write_text(offered.model_dump_json(by_alias=True))
    draft.rename(folder / SPARE_FILE)


def _release(folder: Path, taken: ReceivedRequest, spec: RunRequest) -> bool:
    """End the execution's hold of this driver; return False when it was cancelled: a kill may follow."""
    os.close(taken.lock)
    if (folder / name_cancel_mark(spec.execution_id, spec.attempt)).exists():
        return False
    (folder / TAKEN).unlink(missing_ok=True)
    return True


class SparkStart:
    """The start of Spark and the small job, in a thread of low priority.

    An execution that takes the spare during this start waits for Spark only, and the priority becomes that of other
    drivers.
    """

    def __init__(self, spec: SpareSpec, listener: SpareSocket, folder: Path) -> None:
        self._spec = spec
        self._folder = folder
        self._listener = listener
        self._priority = _Priority()
        self._thread = threading.Thread(target=self._run, name="start", daemon=True)
        self._is_cancelled = False
        self.spark: WarmSpark = Future()
        self.usage = Usage()

    def begin(self) -> None:
        self._thread.start()
        threading.Thread(target=self._restore_priority, name="priority", daemon=True).start()

    def finish(self) -> None:
        """Cancel the small jobs: to empty Spark's cache while one of them runs is a deadlock inside Spark."""
        self._is_cancelled = True
        while self._thread.is_alive() and is_spark_alive():
            self.spark.result()[0].sparkContext.cancelAllJobs()
            self._thread.join(_CANCEL_SECONDS)

    def _run(self) -> None:
        if not self._priority.lower():
            self._listener.ended.wait(_QUIET_SECONDS)
        try:
            load_plugins()
            own = self._spec.spark
            spark = start_session(own.master, "spindle", self._spec.session_conf, libraries=own.libraries)
            status = SparkStatus(spark.sparkContext)
        except BaseException as error:
            self.spark.set_exception(error)
            return
        self.spark.set_result((spark, status))
        try:
            self._warm_up(spark, status)
        finally:
            self._priority.restore()
        (self._folder / READY).touch()

    def _warm_up(self, spark: SparkSession, status: SparkStatus) -> None:
        if not self._listener.ended.is_set():
            try:
                run_small_jobs(spark, _PREVIEW_ROWS)
            except Exception:
                if self._is_cancelled:
                    return
                raise
        if not self._listener.ended.is_set():
            status.reset()
            self.usage = measure_usage(os.getpid()) or self.usage

    def _restore_priority(self) -> None:
        self._listener.ended.wait()
        self._priority.restore()


def _await_request(listener: SpareSocket, spark: WarmSpark) -> None:
    """Wait until the listener has ended, Spark has failed or ended, or a claim of the spare has come to nothing."""
    claimed_at = None
    while not listener.ended.wait(_CHECK_SECONDS):
        if spark.done() and not is_spark_alive():
            spark.result()
            return
        if listener.is_claimed():
            claimed_at = claimed_at or time.monotonic()
            if time.monotonic() - claimed_at > _CLAIM_SECONDS:
                return


def _terminate() -> None:
    """Kill this process and its group: a JVM that is just starting would not notice the end of its parent."""
    os.killpg(0, signal.SIGKILL)


def _execute(taken: ReceivedRequest, spec: RunRequest, output: MaskedOutput, warm: WarmSpark, used: Usage) -> int:
    output.redirect(taken.log)
    os.close(taken.log)
    os.environ.update(taken.request.environment)
    return execute(spec, output, warm, used)


class _Priority:
    """A low priority while a spare starts, where it may have its own again."""

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


def _can_restore_priority() -> bool:
    """Try it in a thread, which has a priority of its own on Linux."""
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
