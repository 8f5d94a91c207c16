"""Messages of Dagster Pipes in the driver's own output, where it shares no file with its run.

A line begins with a mark that the run has chosen: text of pages in the log cannot pass for a message.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager

from dagster_pipes import (
    DAGSTER_PIPES_MESSAGES_ENV_VAR,
    PipesDefaultMessageWriter,
    PipesMessage,
    PipesMessageWriterChannel,
    PipesParams,
)

MARK_KEY = "mark"
MARKED_LINE = re.compile(rb'([0-9a-f]{64})(\{"__dagster_pipes_version".*)', re.DOTALL)
MESSAGES_VARIABLE = DAGSTER_PIPES_MESSAGES_ENV_VAR


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
