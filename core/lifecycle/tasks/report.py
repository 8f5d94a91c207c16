"""A task together with the execution that it is bound to: status, progress, log and metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from core.infra.validation import format_optional_time, format_time, is_storable
from core.lifecycle.usage.usage import measure_seconds
from core.tables import Execution, Task
from core.tables.states import State

# fields of a task's metrics that the driver reports, and their names in `Execution.metrics`
_COUNTS = {
    "recordsProcessed": "records_processed",
    "recordsOutput": "records_output",
    "outputFileSizeBytes": "output_file_size_bytes",
    "driverMemoryUsedBytes": "driver_memory_used_bytes",
    "executorMemoryUsedBytes": "executor_memory_used_bytes",
    "executorCount": "executor_count",
    "totalCpuTimeSeconds": "total_cpu_time_seconds",
    "errorCount": "error_count",
    "warningCount": "warning_count",
}
METRICS = ("status", "durationSeconds", "startedAt", "completedAt", *_COUNTS)


@dataclass(frozen=True, slots=True)
class TaskWithExecution:
    """A task and, after its first run, the execution that it is bound to."""

    task: Task
    execution: Execution | None

    @property
    def status(self) -> str:
        return State.PENDING if self.execution is None else State(self.execution.state).public

    @property
    def progress(self) -> float:
        """The completed fraction, 0 to 1."""
        if self.execution is None:
            return 0.0
        if self.execution.state == State.COMPLETED:
            return 1.0
        fraction = self.execution.progress.get("fraction", 0.0)
        return min(max(float(fraction), 0.0), 1.0) if isinstance(fraction, int | float) else 0.0

    @property
    def log(self) -> str | None:
        """The `executionLog`: one line per change of state, then the metrics as JSON.

        Before the first run it is the text that a client stored.
        """
        return self.task.execution_log if self.execution is None else _format_log(self.execution)

    def read_metrics(self) -> dict[str, Any]:
        """Return the metrics line of the log, with null for missing metrics."""
        line = _find_metrics_line(self.log or "")
        status = line.get("status")
        has_status = isinstance(status, str) and status and is_storable(status)
        return {name: line.get(name) for name in METRICS} | {"status": status if has_status else self.status}


def _format_log(execution: Execution) -> str:
    status = State(execution.state).public
    changes = (
        (execution.created_at, "Submitted."),
        (execution.started_at, "Started."),
        (execution.completed_at, f"{status}. {execution.error_message or ''}".strip()),
    )
    lines = [f"{format_time(at)} {text}" for at, text in changes if at is not None]
    lines += [f"WARN {text}" for text in execution.metrics.get("warnings", ())]
    metrics = {
        "status": status,
        "startedAt": format_optional_time(execution.started_at),
        "completedAt": format_optional_time(execution.completed_at),
        "durationSeconds": execution.metrics.get(
            "duration_seconds", measure_seconds(execution.started_at, execution.completed_at)
        ),
        **{name: execution.metrics.get(key) for name, key in _COUNTS.items()},
    }
    return "\n".join([*lines, json.dumps(metrics)])


def _find_metrics_line(log: str) -> Mapping[str, Any]:
    """Return the last line of the log that is a JSON object, an empty one without such a line."""
    for line in reversed(log.splitlines()):
        try:
            value = json.loads(line) if line.lstrip().startswith("{") else None
        except (ValueError, RecursionError):  # clients may store any text
            continue
        if isinstance(value, dict):
            return cast(Mapping[str, Any], value)
    return {}
