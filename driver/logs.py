"""The driver's log: one JSON object a line on stderr, and the lines of the JVM and the workers, all without secrets."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from copy import copy
from datetime import UTC, datetime
from typing import Any, TextIO

_END = b"\0end of output\n"
_DRAIN_SECONDS = 2.0
_MAX_LINE_BYTES = 2**20
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


@contextmanager
def mask_output(mask: Callable[[Any], Any]) -> Generator[None]:
    """Log through `mask`, and pass through it what this process and its children write to stdout and stderr.

    The JVM and the Python workers write there themselves, for example errors that quote a row.
    """
    original = os.dup(2)
    reading, writing = os.pipe()
    for standard in (1, 2):
        os.dup2(writing, standard)
    thread = threading.Thread(target=_copy_lines, args=(reading, original, mask), name="output", daemon=True)
    thread.start()
    with os.fdopen(os.dup(original), "w", buffering=1, encoding="utf-8") as stream:
        configure_logging(mask, stream)
        try:
            yield
        finally:
            os.write(writing, _END)  # the JVM still has the pipe, so that it does not end by itself
            thread.join(_DRAIN_SECONDS)
            for standard in (1, 2):
                os.dup2(original, standard)
            os.close(writing)
            configure_logging(mask)


def _copy_lines(reading: int, target: int, mask: Callable[[Any], Any]) -> None:
    with os.fdopen(reading, "rb") as lines:
        while line := lines.readline(_MAX_LINE_BYTES):
            text = mask(line.removesuffix(_END).decode("utf-8", "replace"))
            if text:
                os.write(target, text.encode())
            if line.endswith(_END):
                return
