"""Measuring a run: what its processes use, what Spark and the engine counted; told while it runs and at its end."""

from __future__ import annotations

import os
import threading
import time
from types import TracebackType
from typing import Any, Self

from py4j.protocol import Py4JError
from pyspark import SparkContext

from driver.processes import Sample, sample
from driver.spark_status import SparkStatus, Totals
from pipelines.spark.run import Run

_PROCESSES_EVERY_SECONDS = 1.0
_SPARK_EVERY_SAMPLES = 5
_NOTHING = Sample(0.0, 0.0, 0, 0)


class Meter:
    """Samples in a thread of its own: a JVM that hangs must not silence the heartbeat."""

    def __init__(self) -> None:
        self._measured = _NOTHING
        self._peaks = (0, 0)
        self._byte_seconds = 0.0
        self._sampled_at = time.monotonic()
        self._status: SparkStatus | None = None
        self._totals: Totals | None = None
        self._run_counted: Run | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()

    def count(self, run: Run) -> None:
        """From now on what the engine counts is told too."""
        self._run_counted = run

    def watch(self, context: SparkContext) -> None:
        """From now on what Spark counts is told too."""
        self._status = SparkStatus(context)

    def finish(self) -> None:
        """Takes the last sample; not to be called when Spark was stopped in the middle of a call."""
        self._ended.set()
        self._thread.join(timeout=_SPARK_EVERY_SAMPLES)
        self._sample()
        self._read_spark()

    def fields(self) -> dict[str, Any]:
        """The fields of a report that are measured, its free-form `metrics` among them; without what is not known."""
        metrics: dict[str, Any] = {}
        fields: dict[str, Any] = {"metrics": metrics}
        if self._measured is not _NOTHING:
            self._add_processes(fields, metrics)
        if self._totals is not None:
            metrics["tasksCompleted"] = self._totals.tasks
            metrics["bytesRead"] = self._totals.bytes_read
            metrics["bytesWritten"] = self._totals.bytes_written
            metrics["executorSeconds"] = round(self._totals.executor_seconds, 3)
            fields["executorCount"] = self._totals.executors
        if self._run_counted is not None:
            _add_counts(fields, metrics, self._run_counted)
        return fields

    def _add_processes(self, fields: dict[str, Any], metrics: dict[str, Any]) -> None:
        """Executors have the workers, and what Spark's tasks used inside of the JVM; the driver has the rest."""
        measured = self._measured
        in_jvm = min(self._totals.cpu, measured.driver_cpu) if self._totals else 0.0
        metrics["driverCpuSeconds"] = round(measured.driver_cpu - in_jvm, 3)
        metrics["executorCpuSeconds"] = round(measured.worker_cpu + in_jvm, 3)
        metrics["memoryByteSeconds"] = round(self._byte_seconds)
        fields["totalCpuTimeSeconds"] = round(metrics["driverCpuSeconds"] + metrics["executorCpuSeconds"])
        fields["driverMemoryUsedBytes"], fields["executorMemoryUsedBytes"] = self._peaks

    def _run(self) -> None:
        samples = 0
        while not self._ended.is_set():
            self._sample()
            if samples % _SPARK_EVERY_SAMPLES == 0:
                self._read_spark()
            samples += 1
            self._ended.wait(_PROCESSES_EVERY_SECONDS)

    def _sample(self) -> None:
        """CPU never falls: what a process used that ended unseen between two samples stays counted."""
        now, taken = time.monotonic(), sample(os.getpid())
        if taken is None:
            return
        before = self._measured
        self._byte_seconds += (taken.driver_memory + taken.worker_memory) * (now - self._sampled_at)
        self._sampled_at = now
        self._peaks = max(self._peaks[0], taken.driver_memory), max(self._peaks[1], taken.worker_memory)
        self._measured = Sample(
            max(taken.driver_cpu, before.driver_cpu),
            max(taken.worker_cpu, before.worker_cpu),
            taken.driver_memory,
            taken.worker_memory,
        )

    def _read_spark(self) -> None:
        if self._status is None:
            return
        try:
            self._totals = self._status.read()
        except (Py4JError, OSError):
            self._status = None  # the JVM is gone, and the last numbers are those of the run


def _add_counts(fields: dict[str, Any], metrics: dict[str, Any], run: Run) -> None:
    counts = list(run.get_counts().values())
    if not counts:
        return
    metrics["pages"] = sum(each.pages for each in counts)
    metrics["networkBytes"] = sum(each.bytes for each in counts)
    fields["recordsProcessed"] = max(each.rows for each in counts)
    fields["errorCount"] = sum(each.errors for each in counts)
