"""The output of the driver in the logs of its Dagster run: prints of users' functions as stdout, its log as stderr."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from dagster import DagsterInstance, OpExecutionContext

from core.infra.files import FULL
from core.lifecycle.executions.logs import format_log_line
from driver.logs import EXECUTOR_LINE
from orchestration.compute.protocol import Compute, DriverHandle
from orchestration.dagster_run_internals import write_run_output
from pipelines.transforms.sandbox import PRINTED_LINE

LOG_SECONDS = 2.0
MAX_PART_BYTES = 1024 * 1024
_EXECUTOR, _FUNCTION = (re.escape(each.partition("{}")[0]) for each in (EXECUTOR_LINE, PRINTED_LINE))
_PRINTED = re.compile(rf"(?:{_EXECUTOR}\w+\] )?{_FUNCTION}")


class ProgressLog:
    """Writes a stage's progress to its step's log: when it has changed, at most every two seconds."""

    def __init__(self, context: OpExecutionContext) -> None:
        self._context = context
        self._line = ""
        self._logged_at = 0.0

    def show(self, stage: Mapping[str, Any]) -> None:
        line = ", ".join(f"{stage[name]:,} {name}" for name in ("rows", "pages", "errors") if stage.get(name))
        if line and line != self._line and time.monotonic() - self._logged_at >= LOG_SECONDS:
            self._context.log.info(line)
            self._line, self._logged_at = line, time.monotonic()


class DriverOutput:
    """Copies the log of one driver, whose secrets are masked in it, to the run's page while the driver writes it."""

    def __init__(
        self, instance: DagsterInstance, run_id: str, compute: Compute, handle: DriverHandle, shows_rows: bool
    ) -> None:
        self._instance = instance
        self._run_id = run_id
        self._compute = compute
        self._handle = handle
        self._shows_rows = shows_rows
        self._offset = 0

    def copy(self, is_complete: bool = False) -> None:
        """Copy the new lines; the last one too, without its end, when the log is complete."""
        while part := self._compute.read_log_part(self._handle, self._offset, MAX_PART_BYTES):
            end = part.rfind(b"\n") + 1
            if end == 0 and (is_complete or len(part) == MAX_PART_BYTES):
                end = len(part)
            if end == 0:
                return
            try:
                self._write(part[:end].decode("utf-8", "replace").splitlines())
            except OSError as error:
                if error.errno not in FULL:
                    raise
                return  # the lines wait in the log for room
            self._offset += end

    def _write(self, lines: Iterable[str]) -> None:
        printed, logged = [], []
        for line in lines:
            if _PRINTED.match(line):
                printed.append(line)
            else:
                logged.append(format_log_line(line))
        if self._shows_rows:
            write_run_output(self._instance, self._run_id, "stdout", printed)
        write_run_output(self._instance, self._run_id, "stderr", logged)
