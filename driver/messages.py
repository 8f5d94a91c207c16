"""Messages of Dagster Pipes in the driver's own output, where it shares no file with its run.

A line begins with a mark that only the driver and the service know: text of pages in the log cannot pass for a message.
A driver that serves several executions also marks their beginnings and ends in its log.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Self

from dagster_pipes import (
    DAGSTER_PIPES_MESSAGES_ENV_VAR,
    PipesDefaultMessageWriter,
    PipesMessage,
    PipesMessageWriterChannel,
    PipesParams,
)

MARK_KEY = "mark"
MARK_VARIABLE = "SPINDLE_LOG_MARK"  # of a driver that serves several executions
MARKED_LINE = re.compile(rb'([0-9a-f]{64})(\{"(?:__dagster_pipes_version|spindle_execution)".*)', re.DOTALL)
_BOUNDARY = "spindle_execution"
MESSAGES_VARIABLE = DAGSTER_PIPES_MESSAGES_ENV_VAR


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where an execution begins in the log of its driver, or with an exit code, where it ends."""

    exit_code: int | None = None

    def format(self, mark: str) -> str:
        return f"{mark}{json.dumps({_BOUNDARY: asdict(self)})}\n"

    @classmethod
    def parse(cls, message: bytes) -> Self | None:
        """Return the boundary that a marked line shows; None for a message."""
        content = json.loads(message)
        return cls(**content[_BOUNDARY]) if _BOUNDARY in content else None


class DriverMessageWriter(PipesDefaultMessageWriter):
    """Writes messages to the file of the run, or with a mark to standard error, as the run's reader wants."""

    @contextmanager
    def open(self, params: PipesParams) -> Generator[PipesMessageWriterChannel]:
        mark = params.get(MARK_KEY)
        if isinstance(mark, str):
            yield _MarkedChannel(mark)
        else:
            with super().open(params) as channel:
                yield channel


class _MarkedChannel(PipesMessageWriterChannel):
    def __init__(self, mark: str) -> None:
        self._mark = mark

    def write_message(self, message: PipesMessage) -> None:
        sys.stderr.write(f"{self._mark}{json.dumps(message)}\n")
        sys.stderr.flush()
