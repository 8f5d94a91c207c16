"""The messages that a driver sends by Dagster Pipes: lines of a file, which it or the reader of its log writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import structlog
from dagster_pipes import (
    DAGSTER_PIPES_CONTEXT_ENV_VAR,
    DAGSTER_PIPES_MESSAGES_ENV_VAR,
    PipesContextData,
    encode_param,
)

from driver.messages import MARK_KEY

Message = Mapping[str, Any]

log = structlog.get_logger()


class DriverMessages:
    """Reads the file from its beginning, a part with every call. A driver with a `mark` writes to its log instead."""

    def __init__(self, path: Path, mark: str | None = None) -> None:
        self._path = path
        self._mark = mark
        self._file: IO[bytes] | None = None
        self._line = b""
        self._lines = 0

    def build_environment(self, run_id: str) -> Mapping[str, str]:
        """Return the variables by which the driver knows its run, and where to write."""
        context = PipesContextData(
            asset_keys=None,
            code_version_by_asset_key=None,
            provenance_by_asset_key=None,
            partition_key=None,
            partition_key_range=None,
            partition_time_window=None,
            run_id=run_id,
            job_name=None,
            retry_number=0,
            extras={},
        )
        target = {"path": str(self._path)} if self._mark is None else {MARK_KEY: self._mark}
        return {
            DAGSTER_PIPES_CONTEXT_ENV_VAR: encode_param({"data": context}),
            DAGSTER_PIPES_MESSAGES_ENV_VAR: encode_param(target),
        }

    def read(self) -> Sequence[Message]:
        """Return the driver's own messages that were written since the last call."""
        if self._file is None:
            try:
                self._file = self._path.open("rb")
            except FileNotFoundError:  # the driver has not begun
                return []
        found = list[Message]()
        while part := self._file.readline():
            self._line += part
            if self._line.endswith(b"\n"):
                found += self._parse(self._line)
                self._line = b""
        return found

    def close(self) -> None:
        """Delete the file."""
        if self._file is not None:
            self._file.close()
        self._path.unlink(missing_ok=True)

    def _parse(self, line: bytes) -> Sequence[Message]:
        self._lines += 1
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict) or "method" not in message:  # its text may hold a secret
            log.warning("a line of a driver is no message", file=str(self._path), line=self._lines, bytes=len(line))
            return []
        return [message["params"]["payload"]] if message["method"] == "report_custom_message" else []
