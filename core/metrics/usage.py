"""What an execution used, from what its driver reported; whatever that was, it can be added up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from core.tables import Execution, now

LARGEST = 10**14  # 100 TB, or three million years: what is reported beyond it is wrong, and would not add up any more
GB = 10**9
FIRST_ATTEMPT = 1


@dataclass(frozen=True, slots=True)
class Usage:
    """Integers, so that sums are exact. `executor_seconds` are those of machines beside the driver's own."""

    executions: int
    seconds: int
    cpu_ms: int
    memory_mb_seconds: int
    bytes_read: int
    bytes_written: int
    network_bytes: int
    records: int
    tasks: int
    executor_count: int
    executor_seconds: int

    @classmethod
    def of(cls, execution: Execution) -> Usage:
        """So far, or in all when it has ended."""
        counts: Mapping[str, Any] = execution.metrics
        measured = counts.get("metrics")
        return _usage(execution, counts, cast(Mapping[str, Any], measured) if isinstance(measured, dict) else {})


def seconds(started_at: datetime | None, completed_at: datetime | None) -> int | None:
    """Whole seconds that an execution has run, so far or in all; None before it started."""
    if started_at is None:
        return None
    return max(0, round(((completed_at or now()) - started_at).total_seconds()))


def _usage(execution: Execution, counts: Mapping[str, Any], measured: Mapping[str, Any]) -> Usage:
    """A reporter that sends the specified fields alone is understood too: peaks stand for the memory held."""
    took = seconds(execution.started_at, execution.completed_at) or 0
    duration = _whole(counts.get("duration_seconds"), or_else=took)
    cpu = [_number(measured.get(name)) for name in ("driverCpuSeconds", "executorCpuSeconds")]
    cpu_seconds = _number(counts.get("total_cpu_time_seconds")) if None in cpu else sum(each or 0 for each in cpu)
    peaks = (_number(counts.get(name)) or 0 for name in ("driver_memory_used_bytes", "executor_memory_used_bytes"))
    held = _number(measured.get("memoryByteSeconds"))
    executors = _whole(counts.get("executor_count"))
    return Usage(
        executions=int(execution.attempt == FIRST_ATTEMPT),
        seconds=duration,
        cpu_ms=_whole((cpu_seconds or 0) * 1000),
        memory_mb_seconds=_whole((sum(peaks) * duration if held is None else held) / 10**6),
        bytes_read=_whole(measured.get("bytesRead")),
        bytes_written=_whole(measured.get("bytesWritten"), or_else=counts.get("output_file_size_bytes")),
        network_bytes=_whole(measured.get("networkBytes")),
        records=_whole(counts.get("records_processed")),
        tasks=_whole(measured.get("tasksCompleted")),
        executor_count=executors,
        executor_seconds=_whole(measured.get("executorSeconds"), or_else=executors * duration),
    )


def _whole(value: object, or_else: object = 0) -> int:
    """A number from 0 to LARGEST, rounded; `or_else` where the value is none."""
    number = _number(value)
    if number is None:
        number = _number(or_else) or 0
    return round(min(max(number, 0), LARGEST))


def _number(value: object) -> float | None:
    """The value if it is a finite number: reports are free-form."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None
