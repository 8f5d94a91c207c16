"""The driver's log: one JSON object a line on stderr."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Callable
from copy import copy
from datetime import UTC, datetime
from typing import Any

_LEVELS = {"WARNING": "WARN", "CRITICAL": "ERROR"}


class JsonLines(logging.Formatter):
    """`logger.info("event", extra={"fields": {...}})` → {"timestamp", "level", "event", ...fields}."""

    def __init__(self, hidden: Callable[[Any], Any]) -> None:
        super().__init__()
        self._hidden = hidden

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": _LEVELS.get(record.levelname, record.levelname),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1]:
            line["trace"] = "".join(traceback.format_exception(record.exc_info[1]))
        plain = json.loads(json.dumps(line, default=str))
        return json.dumps(self._hidden(plain))


def configure(hidden: Callable[[Any], Any] = copy) -> None:
    """Every line is what `hidden` leaves of it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(hidden))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # both tell of every request and every call to the JVM
    for noisy in ("httpx", "httpcore", "py4j"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
