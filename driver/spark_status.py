"""What Spark counted of a run, from the status store in its driver, which is there without the web UI too."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from pyspark import SparkContext

_BUS_PATIENCE_MS = 2000
_ENDED = ("COMPLETE", "FAILED", "SKIPPED")


@dataclass(frozen=True, slots=True)
class Totals:
    """Over all stages so far. `cpu` are seconds of tasks inside of JVMs, `executor_seconds` of executors' lives.

    A local master has one executor, inside of the driver: no seconds beside the driver's. `bytes_read` come from files;
    Spark's own count of the driver's tasks would have cached rows in it.
    """

    tasks: int = 0
    cpu: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0
    executors: int = 0
    executor_seconds: float = 0.0


class SparkStatus:
    """Reads the status store; stages that have ended are read once, since the store forgets the oldest of very many."""

    def __init__(self, context: SparkContext) -> None:
        wrapper: Any = context._jsc  # pyright: ignore[reportPrivateUsage]
        gateway: Any = context._gateway  # pyright: ignore[reportPrivateUsage]
        java = wrapper.sc()
        self._bus, self._store, self._local = java.listenerBus(), java.statusStore(), bool(java.isLocal())
        self._file_systems = gateway.jvm.org.apache.hadoop.fs.FileSystem
        self._anything = gateway.jvm.java.util.ArrayList()
        self._no_quantiles = gateway.new_array(gateway.jvm.double, 0)
        self._ended: dict[tuple[int, int], tuple[float, int]] = {}
        self._all_ended_before = 0

    def read(self) -> Totals:
        """Totals of now; raises Py4JError when the JVM is gone."""
        self._bus.waitUntilEmpty(_BUS_PATIENCE_MS)
        running = self._read_stages()
        cpu, written = (sum(each) for each in zip((0.0, 0), *self._ended.values(), *running, strict=True))
        tasks, read, executors, seconds = self._executors()
        return Totals(tasks, cpu, read, int(written), executors, seconds)

    def _read_stages(self) -> list[tuple[float, int]]:
        """CPU seconds and bytes written of the stages that run; keeps those of the stages that have ended."""
        stages = self._store.stageList(None, False, False, self._no_quantiles, self._anything)
        running: dict[int, tuple[float, int]] = {}
        newest = self._all_ended_before
        for index in range(stages.size()):  # the newest comes first
            stage = stages.apply(index)
            number = int(stage.stageId())
            if number < self._all_ended_before:
                break
            newest = max(newest, number + 1)
            counted = (stage.executorCpuTime() / 1e9, int(stage.outputBytes()))
            if stage.status().toString() in _ENDED:
                self._ended[number, int(stage.attemptId())] = counted
            else:
                running[number] = counted
        self._all_ended_before = min(running, default=newest)
        return list(running.values())

    def _executors(self) -> tuple[int, int, int, float]:
        """Tasks completed, bytes read, executors beside the driver (or the one inside of it) and their seconds."""
        found = self._store.executorList(False)
        each = [found.apply(index) for index in range(found.size())]
        beside = [one for one in each if one.id() != "driver"]
        tasks = sum(one.completedTasks() for one in each)
        read = sum(one.totalInputBytes() for one in beside)
        read += sum(files.getBytesRead() for files in self._file_systems.getAllStatistics())
        now = time.time() * 1000
        ends = [one.removeTime().get().getTime() if one.removeTime().isDefined() else now for one in beside]
        lives = (end - one.addTime().getTime() for one, end in zip(beside, ends, strict=True))
        return int(tasks), int(read), 1 if self._local else len(beside), sum(lives) / 1000
