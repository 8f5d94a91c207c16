"""The usage of an execution, read from its driver's reports, which may contain anything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from core.tables import Execution, now

MAX_AMOUNT = 10**14  # 100 TB, or three million years: larger reports are wrong, and their sums would overflow
GB = 10**9
FIRST_ATTEMPT = 1


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage in integers, whose sums are exact. `executor_seconds` are those of machines other than the driver's."""

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
        """Return the usage so far; the total once the execution has ended."""
        counts: Mapping[str, object] = execution.metrics
        found = counts.get("metrics")
        measured = cast(Mapping[str, object], found) if isinstance(found, dict) else {}
        return _read_usage(execution, counts, measured)


def measure_seconds(started_at: datetime | None, completed_at: datetime | None) -> int | None:
    """Return the whole seconds that an execution has run so far, or in total; None before it started."""
    if started_at is None:
        return None
    return max(0, round(((completed_at or now()) - started_at).total_seconds()))


def _read_usage(execution: Execution, counts: Mapping[str, object], measured: Mapping[str, object]) -> Usage:
    """Read the driver's measurements. Reports without them are charged by the specified fields, memory by its peaks."""
    measured_seconds = measure_seconds(execution.started_at, execution.completed_at) or 0
    duration = _read_whole(counts.get("duration_seconds"), or_else=measured_seconds)
    cpu = [_read_number(measured.get(name)) for name in ("driverCpuSeconds", "executorCpuSeconds")]
    cpu_seconds = _read_number(counts.get("total_cpu_time_seconds")) if None in cpu else sum(each or 0 for each in cpu)
    peaks = (_read_number(counts.get(name)) or 0 for name in ("driver_memory_used_bytes", "executor_memory_used_bytes"))
    held = _read_number(measured.get("memoryByteSeconds"))
    executors = _read_whole(counts.get("executor_count"))
    return Usage(
        executions=int(execution.attempt == FIRST_ATTEMPT),
        seconds=duration,
        cpu_ms=_read_whole((cpu_seconds or 0) * 1000),
        memory_mb_seconds=_read_whole((sum(peaks) * duration if held is None else held) / 10**6),
        bytes_read=_read_whole(measured.get("bytesRead")),
        bytes_written=_read_whole(measured.get("bytesWritten"), or_else=counts.get("output_file_size_bytes")),
        network_bytes=_read_whole(measured.get("networkBytes")),
        records=_read_whole(counts.get("records_processed")),
        tasks=_read_whole(measured.get("tasksCompleted")),
        executor_count=executors,
        executor_seconds=_read_whole(measured.get("executorSeconds"), or_else=executors * duration),
    )


def _read_whole(value: object, or_else: object = 0) -> int:
    """Return a number rounded and limited to 0 to MAX_AMOUNT; `or_else` when the value is not a number."""
    number = _read_number(value)
    if number is None:
        number = _read_number(or_else) or 0
    return round(min(max(number, 0), MAX_AMOUNT))


def _read_number(value: object) -> float | None:
    """Return the value if it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None
