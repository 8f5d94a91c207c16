"""Logs: one JSON object a line from every process of the service, and the lines of an execution's driver."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import structlog

from core.infra.storage.protocol import NotStored, Storage, log_key
from core.tables import Execution

LEVELS = ("DEBUG", "INFO", "WARN", "ERROR")
LONGEST_READ = 8 * 1024 * 1024
_SPELLINGS = {"WARNING": "WARN", "CRITICAL": "ERROR", "FATAL": "ERROR", "TRACE": "DEBUG"}
_LOG4J = re.compile(r"^\d\d/\d\d/\d\d \d\d:\d\d:\d\d (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ")


def configure(service: str) -> None:
    """Logs of this process go to stderr, one JSON object a line, with the name of the service."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("event"),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,  # made anew for each line, it costs as much as the line
    )
    structlog.contextvars.bind_contextvars(service=service)


def execution_logs(
    storage: Storage,
    execution: Execution,
    *,
    tail: int = 100,
    level: str | None = None,
    pod_type: str = "driver",
) -> list[str]:
    """The last lines of at least this level, as text. On local compute the executors live in the driver."""
    if pod_type != "driver" or tail <= 0:
        return []
    key = log_key(execution.organization_id, execution.id, execution.attempt)
    least = LEVELS.index(level) if level else 0
    return [text for at, text in _leveled(_last_lines(storage, key)) if LEVELS.index(at) >= least][-tail:]


def _last_lines(storage: Storage, key: str) -> Iterable[str]:
    """Return the lines in the last megabytes of the file; none when the driver has not written any."""
    try:
        with storage.open(key) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LONGEST_READ))
            lines = file.read(LONGEST_READ).decode("utf-8", "replace").splitlines()
    except NotStored:
        return []
    return lines[1:] if size > LONGEST_READ else lines


def _leveled(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each line with its level; one that tells none, as in a stack trace, has that of the line before."""
    level = "INFO"
    for line in lines:
        event = _event(line)
        if event is not None:
            level = _level(str(event.get("level", "INFO")))
            yield level, _text(event, level)
        else:
            log4j = _LOG4J.match(line)
            level = _level(log4j[1]) if log4j else level
            yield level, line


def _event(line: str) -> Mapping[str, Any] | None:
    """The JSON object that the line holds, if it is one that the runner wrote."""
    try:
        value = json.loads(line) if line.startswith("{") else None
    except (ValueError, RecursionError):
        return None
    return cast(Mapping[str, Any], value) if isinstance(value, dict) and "event" in value else None


def _text(event: Mapping[str, Any], level: str) -> str:
    rest = (f"{key}={_shown(value)}" for key, value in event.items() if key not in ("timestamp", "level", "event"))
    return " ".join([*filter(None, [str(event.get("timestamp", ""))]), level, str(event["event"]), *rest])


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _level(name: str) -> str:
    upper = name.upper()
    return upper if upper in LEVELS else _SPELLINGS.get(upper, "INFO")
