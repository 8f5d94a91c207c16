"""Spark's counts of a run, read from the status store of its driver, which works without the web UI."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

_BUS_TIMEOUT_MS = 2000
_ENDED = ("COMPLETE", "FAILED", "SKIPPED")


@dataclass(frozen=True, slots=True)
class SparkTotals:
    """Totals over all stages so far.

    `cpu` are seconds of tasks inside JVMs, `executors` is the largest number at one time, and `executor_seconds` are
    their lifetimes. With a local master there is one executor, inside the driver, without a lifetime to count.
    `bytes_read` are read from files: Spark's own count would include cached rows.
    """

    tasks: int = 0
    cpu: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0
    executors: int = 0
    executor_seconds: float = 0.0


class SparkStatus:
    """Reads the status store. Stages that have ended are read once: the store forgets the oldest of very many.

    After `reset`, only what follows counts.
    """

    def __init__(self, context: SparkContext) -> None:
        wrapper: Any = context._jsc  # pyright: ignore[reportPrivateUsage]
        gateway: Any = context._gateway  # pyright: ignore[reportPrivateUsage]
        java = wrapper.sc()
        self._bus, self._store, self._local = java.listenerBus(), java.statusStore(), bool(java.isLocal())
        self._file_systems = gateway.jvm.org.apache.hadoop.fs.FileSystem
        self._no_states = gateway.jvm.java.util.ArrayList()
        self._no_quantiles = gateway.new_array(gateway.jvm.double, 0)
        self._ended: dict[tuple[int, int], tuple[float, int]] = {}
        self._all_ended_before = 0
        self._before = SparkTotals()

    def reset(self) -> None:
        self._before = SparkTotals()
        self._before = self._read()

    def read(self) -> SparkTotals | None:
        """Return the totals so far; None when the JVM has ended."""
        try:
            return self._read()
        except (Py4JError, OSError):
            return None

    def _read(self) -> SparkTotals:
        self._bus.waitUntilEmpty(_BUS_TIMEOUT_MS)
        running = self._read_stages()
        cpu, written = (sum(each) for each in zip((0.0, 0), *self._ended.values(), *running, strict=True))
        tasks, read, executors, seconds = self._read_executors()
        before = self._before
        return SparkTotals(
            tasks - before.tasks,
            cpu - before.cpu,
            read - before.bytes_read,
            int(written) - before.bytes_written,
            executors,
            seconds - before.executor_seconds,
        )

    def _read_stages(self) -> list[tuple[float, int]]:
        """Return CPU seconds and bytes written of the running stages; remember those of the stages that have ended."""
        stages = self._store.stageList(None, False, False, self._no_quantiles, self._no_states)
        running: dict[int, tuple[float, int]] = {}
        newest = self._all_ended_before
        for index in range(stages.size()):  # from the newest to the oldest
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

    def _read_executors(self) -> tuple[int, int, int, float]:
        """Return tasks completed, bytes read, most executors at one time, and the sum of their lifetimes in seconds."""
        found = self._store.executorList(False)
        all_executors = [found.apply(index) for index in range(found.size())]
        remote = [each for each in all_executors if each.id() != "driver"]
        tasks = sum(each.completedTasks() for each in all_executors)
        read = sum(each.totalInputBytes() for each in remote)
        read += sum(files.getBytesRead() for files in self._file_systems.getAllStatistics())
        now = time.time() * 1000
        ends = [each.removeTime().get().getTime() if each.removeTime().isDefined() else now for each in remote]
        lifetimes = [(each.addTime().getTime(), end) for each, end in zip(remote, ends, strict=True)]
        seconds = sum(end - start for start, end in lifetimes) / 1000
        return int(tasks), int(read), 1 if self._local else count_most(lifetimes), seconds


def count_most(lifetimes: Iterable[tuple[float, float]]) -> int:
    """Return the largest number of lifetimes that have a time in common."""
    starts_and_ends = sorted(event for start, end in lifetimes for event in ((start, 1), (end, -1)))
    return max(accumulate((step for _, step in starts_and_ends)), default=0)
