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


def configure_logging(mask: Callable[[Any], Any] = copy) -> None:
    """Log to stderr; `mask` replaces the secrets in the lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(mask))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for name in _VERBOSE_LIBRARIES:
        logging.getLogger(name).setLevel(logging.WARNING)
