"""The driver's log: one JSON object a line on stderr, and the lines of the JVM and the workers, all without secrets."""

from __future__ import annotations

import json
import logging
import os
import secrets
import sys
import threading
import traceback
from collections.abc import Callable
from copy import copy
from datetime import UTC, datetime
from typing import Any, Self, TextIO

_END = b"\0end of output\n"
_DRAIN_SECONDS = 2.0
_MAX_LINE_BYTES = 2**20
EXECUTOR_LINE = "[executor {}] "  # before the lines of an executor on another machine
_LEVELS = {"WARNING": "WARN", "CRITICAL": "ERROR"}
_VERBOSE_LIBRARIES = ("httpx", "httpcore", "py4j")  # they log every request, and every call to the JVM


class JsonFormatter(logging.Formatter):
    """`logger.info("event", extra={"fields": {...}})` → {"timestamp", "level", "event", ...fields}."""

    def __init__(self, mask: Callable[[Any], Any]) -> None:
        super().__init__()
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "timestamp": format_time(datetime.fromtimestamp(record.created, UTC)),
            "level": _LEVELS.get(record.levelname, record.levelname),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1]:
            line["trace"] = "".join(traceback.format_exception(record.exc_info[1]))
        return json.dumps(self._mask(json.loads(json.dumps(line, default=str))))


def format_time(at: datetime) -> str:
    """Return a time in UTC as the service writes it: ISO 8601 that ends in `Z`."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def configure_logging(mask: Callable[[Any], Any] = copy, stream: TextIO = sys.stderr) -> None:
    """Log to the stream; `mask` replaces the secrets in the lines."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter(mask))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for name in _VERBOSE_LIBRARIES:
        logging.getLogger(name).setLevel(logging.WARNING)


class MaskedOutput:
    """While it is open, what this process and its children write to stdout and stderr passes through a mask.

    The JVM and the Python workers write there themselves, for example errors that quote a row.
    """

    def __init__(self) -> None:
        self._mask: Callable[[Any], Any] = copy
        self._marks: dict[bytes, threading.Event] = {}

    def __enter__(self) -> Self:
        self.target = os.dup(2)
        reading, self._writing = os.pipe()
        for standard in (1, 2):
            os.dup2(self._writing, standard)
        self._thread = threading.Thread(target=self._copy_lines, args=(reading,), name="output", daemon=True)
        self._thread.start()
        self._stream = os.fdopen(self.target, "w", buffering=1, encoding="utf-8", closefd=False)
        configure_logging(self._mask, self._stream)
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self._writing, _END)  # the JVM still has the pipe, so that it does not end by itself
        self._thread.join(_DRAIN_SECONDS)
        for standard in (1, 2):
            os.dup2(self.target, standard)
        os.close(self._writing)
        configure_logging(self._mask)

    def set_mask(self, mask: Callable[[Any], Any]) -> None:
        """Replace secrets from now on, also in the log."""
        self._mask = mask
        configure_logging(mask, self._stream)

    def redirect(self, descriptor: int) -> None:
        """Write to another file from now on, also the log."""
        self._stream.flush()
        os.dup2(descriptor, self.target)

    def write(self, line: str) -> None:
        """Write a line past the mask, after those of the log."""
        self._stream.write(line)

    def drain(self, *writers: Callable[[str], None]) -> None:
        """Wait until all that was written has passed the mask: the writers add a line to their own output."""
        for write in (self._write, *writers):
            mark = f"\0{secrets.token_hex(8)}"
            passed = self._marks[f"{mark}\n".encode()] = threading.Event()
            write(mark)
            passed.wait(_DRAIN_SECONDS)
        self._marks.clear()

    def _write(self, line: str) -> None:
        os.write(self._writing, f"{line}\n".encode())

    def _copy_lines(self, reading: int) -> None:
        with os.fdopen(reading, "rb") as lines:
            while line := lines.readline(_MAX_LINE_BYTES):
                if passed := self._marks.get(line):
                    passed.set()
                    continue
                text = self._mask(line.removesuffix(_END).decode("utf-8", "replace"))
                if text:
                    os.write(self.target, text.encode())
                if line.endswith(_END):
                    return
