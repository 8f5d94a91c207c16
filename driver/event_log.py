"""Spark's event log of one execution, in the storage, as Spark's history server reads it.

Spark writes the log of its whole session to a file of the driver. The stored log has what happened in one execution,
after the driver's own events, under the ids of the execution and its attempt, and without secrets.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import SparkSession

from pipelines.contract.request import RunRequest
from pipelines.filesystem import is_local, write_file
from pipelines.spark.observations import wait_for_listeners

_START, _END = "SparkListenerApplicationStart", "SparkListenerApplicationEnd"
# events of the session that a page of a later execution needs too
_OF_SESSION = {_START} | {
    f"SparkListener{name}"
    for name in (
        "LogStart",
        "ResourceProfileAdded",
        "BlockManagerAdded",
        "BlockManagerRemoved",
        "EnvironmentUpdate",
        "ExecutorAdded",
        "ExecutorRemoved",
    )
}
_UNFINISHED = ".inprogress"  # ends the file's name until the session has ended

_log = logging.getLogger(__name__)


class EventLog:
    """The log of an execution that begins now, for a file of the storage; `mask` replaces secrets in JSON."""

    def __init__(self, address: str, spark: SparkSession, spec: RunRequest, mask: Callable[[Any], Any]) -> None:
        self._address = address
        self._spark = spark
        self._spec = spec
        self._mask = mask
        context = spark.sparkContext
        folder = unquote(urlsplit(context.getConf().get("spark.eventLog.dir", "")).path)
        self._file = Path(folder) / context.applicationId
        self._began_at = _get_milliseconds()
        wait_for_listeners(spark)
        self._offset = self._find().stat().st_size

    def store(self) -> None:
        """Write the log to the storage; the execution continues without it where that fails."""
        wait_for_listeners(self._spark)
        content = pa.BufferOutputStream()
        try:
            with self._find().open("rb") as lines, pa.CompressedOutputStream(content, "zstd") as compressed:
                for event in self._select(lines):
                    # a history server looks for the beginnings of lines
                    compressed.write(json.dumps(self._mask(event), separators=(",", ":")).encode() + b"\n")
            if is_local(self._address):
                Path(self._address).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_file(self._address, content.getvalue().to_pybytes())
        except OSError:
            _log.exception("the event log of Spark could not be stored")

    def _find(self) -> Path:
        unfinished = self._file.with_name(f"{self._file.name}{_UNFINISHED}")
        return unfinished if unfinished.exists() else self._file

    def _select(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        """Yield the events of the session and of this execution."""
        position = 0
        for line in lines:
            is_own, position = position >= self._offset, position + len(line)
            if not line.endswith(b"\n"):  # the JVM was killed while it wrote
                break
            event: dict[str, Any] = json.loads(line)
            if event["Event"] == _START:
                yield event | self._describe_application()
            elif (is_own or event["Event"] in _OF_SESSION) and event["Event"] != _END:
                yield event
        yield {"Event": _END, "Timestamp": _get_milliseconds()}

    def _describe_application(self) -> dict[str, Any]:
        """Return the fields by which a history server shows the execution as an application of its own."""
        return {
            "App Name": self._spec.job_name,
            "App ID": self._spec.execution_id,
            "App Attempt ID": str(self._spec.attempt),
            "Timestamp": self._began_at,
        }


def _get_milliseconds() -> int:
    return int(time.time() * 1000)
