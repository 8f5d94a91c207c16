"""The resource usage of a run: CPU and memory of its processes, and the counts of Spark and of the engine."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import psutil

from pipelines.engine.run import Run

if TYPE_CHECKING:
    from driver.spark_status import SparkStatus, SparkTotals

_SAMPLE_SECONDS = 1.0
_SAMPLES_PER_SPARK_READ = 5


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds since the start and bytes of memory now; workers are all other processes."""

    driver_cpu: float = 0.0
    worker_cpu: float = 0.0
    driver_memory: int = 0
    worker_memory: int = 0


class UsageMeter:
    """Samples in a separate thread, so that a JVM that hangs does not delay the heartbeat.

    CPU time and counts of Spark `before` the run do not count.
    """

    def __init__(self, before: Usage | None = None) -> None:
        self._before = before or Usage()
        self._usage: Usage | None = None
        self._peaks = (0, 0)
        self._byte_seconds = 0.0
        self._sampled_at = time.monotonic()
        self._status: SparkStatus | None = None
        self._totals: SparkTotals | None = None
        self._run: Run | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_ended, name="usage", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def watch_run(self, run: Run) -> None:
        self._run = run

    def watch_spark(self, status: SparkStatus) -> None:
        self._status = status

    def finish(self) -> None:
        """Take the last sample. Must not be called after a call to Spark was interrupted."""
        self._ended.set()
        self._thread.join(timeout=_SAMPLES_PER_SPARK_READ)
        self._sample()
        self._read_spark()

    def get_report_fields(self) -> dict[str, Any]:
        """Return the measured fields of a completion payload, without those that are unknown."""
        metrics: dict[str, Any] = {}
        fields: dict[str, Any] = {"metrics": metrics}
        usage, totals = self._usage, self._totals
        if usage is not None:
            # tasks inside the JVM are the executors' work although the JVM is the driver's process
            in_jvm = min(totals.cpu, usage.driver_cpu) if totals else 0.0
            metrics["driverCpuSeconds"] = round(usage.driver_cpu - in_jvm, 3)
            metrics["executorCpuSeconds"] = round(usage.worker_cpu + in_jvm, 3)
            metrics["memoryByteSeconds"] = round(self._byte_seconds)
            fields["totalCpuTimeSeconds"] = round(metrics["driverCpuSeconds"] + metrics["executorCpuSeconds"])
            fields["driverMemoryUsedBytes"], fields["executorMemoryUsedBytes"] = self._peaks
        if totals is not None:
            metrics["tasksCompleted"] = totals.tasks
            metrics["bytesRead"] = totals.bytes_read
            metrics["bytesWritten"] = totals.bytes_written
            metrics["executorSeconds"] = round(totals.executor_seconds, 3)
        if totals is not None or (self._run is not None and self._run.engine is not None):
            fields["executorCount"] = totals.executors if totals else 0
        if totals is None and self._run is not None and self._run.engine is not None:
            metrics["tasksCompleted"] = self._run.engine.passes
        if self._run is not None and (counts := self._run.get_counts().values()):
            metrics["pages"] = sum(each.pages for each in counts)
            metrics["networkBytes"] = sum(each.bytes for each in counts)
            fields["recordsProcessed"] = max(each.rows for each in counts)
            fields["errorCount"] = sum(each.errors for each in counts)
        return fields

    def _sample_until_ended(self) -> None:
        samples = 0
        while not self._ended.is_set():
            self._sample()
            if samples % _SAMPLES_PER_SPARK_READ == 0:
                self._read_spark()
            samples += 1
            self._ended.wait(_SAMPLE_SECONDS)

    def _sample(self) -> None:
        now, usage = time.monotonic(), measure_usage(os.getpid())
        if usage is None:
            return
        earlier = self._usage or Usage()
        self._byte_seconds += (usage.driver_memory + usage.worker_memory) * (now - self._sampled_at)
        self._sampled_at = now
        self._peaks = max(self._peaks[0], usage.driver_memory), max(self._peaks[1], usage.worker_memory)
        # a process that ended between two samples takes its CPU time out of the sum: the sum must not fall
        self._usage = Usage(
            max(usage.driver_cpu - self._before.driver_cpu, earlier.driver_cpu),
            max(usage.worker_cpu - self._before.worker_cpu, earlier.worker_cpu),
            usage.driver_memory,
            usage.worker_memory,
        )

    def _read_spark(self) -> None:
        if self._status is None:
            return
        totals = self._status.read()
        if totals is None:  # the JVM has ended; its last totals stay
            self._status = None
        self._totals = totals or self._totals


def measure_usage(pid: int) -> Usage | None:
    """Measure the driver (the process and its JVM, if it has one) and the workers (all other descendants).

    Returns None when the process does not exist.
    """
    try:
        process = psutil.Process(pid)
        descendants = process.children(recursive=True)
    except psutil.NoSuchProcess:
        return None
    drivers = [process, *(each for each in descendants if _is_jvm(each))]
    workers = [each for each in descendants if each not in drivers]
    return Usage(
        driver_cpu=sum(map(_measure_cpu, drivers)),
        worker_cpu=sum(map(_measure_cpu, workers)),
        driver_memory=sum(map(_measure_proportional, drivers)),
        worker_memory=sum(map(_measure_proportional, workers)),
    )


def _is_jvm(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.name() == "java"
    return False


def _measure_cpu(process: psutil.Process) -> float:
    """Return CPU seconds, with those of the children that the process has waited for."""
    with suppress(psutil.Error):
        times = process.cpu_times()
        return times.user + times.system + times.children_user + times.children_system
    return 0.0


def _measure_proportional(process: psutil.Process) -> int:
    """Return the proportional set size where there is one: workers are forked and share pages, which count once."""
    with suppress(psutil.Error):
        memory = process.memory_full_info()
        return getattr(memory, "pss", memory.rss)
    return 0
