"""Reading of the log of an execution's driver."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from core.infra.storage.protocol import NotStored, Storage, log_key
from core.infra.validation import format_time
from core.tables import Execution
from driver.logs import EXECUTOR_LINE

_CODE = Path(__file__).resolve().parents[3]
LEVELS = ("DEBUG", "INFO", "WARN", "ERROR")
MAX_READ_BYTES = 8 * 1024 * 1024
_SPELLINGS = {"WARNING": "WARN", "CRITICAL": "ERROR", "FATAL": "ERROR", "TRACE": "DEBUG"}
_LOG4J = re.compile(
    r"^(?:\d\d/\d\d/\d\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\S+) (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) "
)
_EXECUTOR_LINE = re.compile(re.escape(EXECUTOR_LINE).replace(r"\{\}", r"(\w+)"))
_JAVA_FRAME = re.compile(r"^\s+(at \S|\.\.\. \d+ (more|common))")
_PYTHON_TRACE = "Traceback (most recent call last):"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_HIDDEN_PATH = "<server>"


def read_execution_log(
    storage: Storage,
    execution: Execution,
    *,
    tail: int = 100,
    level: str | None = None,
    pod_type: str = "driver",
    executor: str | None = None,
    attempt: int | None = None,
    private: Sequence[Path] = (),
) -> list[str]:
    """Return the last lines of at least this level, without stack traces and the `private` folders of the server.

    They are those of the current attempt unless `attempt` names another one. Warnings about its completion follow the
    driver's lines. Lines of executors are those of one, or of all; with local compute, executors run inside the driver
    and have none.
    """
    if tail <= 0:
        return []
    key = log_key(execution.organization_id, execution.id, attempt or execution.attempt)
    least = LEVELS.index(level) if level else 0
    of_driver, of_executors = _split_lines(_read_last_lines(storage, key), executor)
    lines = list(_add_levels(drop_traces(of_driver if pod_type == "driver" else of_executors)))
    if pod_type == "driver" and attempt in (None, execution.attempt):
        lines += _list_warnings(execution)
    shown = [text for at, text in lines if LEVELS.index(at) >= least][-tail:]
    folders = sorted(map(str, (*private, sys.prefix, _CODE)), key=len, reverse=True)
    return [_hide(folders, text) for text in shown]


def _list_warnings(execution: Execution) -> Iterator[tuple[str, str]]:
    """Yield the faults that the service found in the reports of the current attempt, with the level."""
    at = execution.completed_at or execution.updated_at
    for warning in execution.metrics.get("warnings", ()):
        yield "WARN", f"{format_time(at)} WARN {warning}"


def _read_last_lines(storage: Storage, key: str) -> Iterable[str]:
    """Return the lines in the last megabytes of the file; none when the driver has not written any."""
    try:
        with storage.open(key) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MAX_READ_BYTES))
            lines = file.read(MAX_READ_BYTES).decode("utf-8", "replace").splitlines()
    except NotStored:
        return []
    return lines[1:] if size > MAX_READ_BYTES else lines


def _split_lines(lines: Iterable[str], executor: str | None) -> tuple[list[str], list[str]]:
    """Return the lines of the driver, and those of this executor or of all, without the mark before them."""
    of_driver: list[str] = []
    of_executors: list[str] = []
    for line in lines:
        match = _EXECUTOR_LINE.match(line)
        if match is None:
            of_driver.append(line)
        elif executor is None or match[1] == executor:
            of_executors.append(line[match.end() :])
    return of_driver, of_executors


def drop_traces(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines without the frames of Java's and Python's stack traces; the exceptions' own lines stay."""
    in_trace = False
    for line in lines:
        if line.endswith(_PYTHON_TRACE):
            in_trace = True
            line = line.removesuffix(_PYTHON_TRACE).rstrip()
            if not line:
                continue
        elif in_trace and (not line.strip() or line.startswith((" ", "\t", *_CHAINED))):
            continue
        else:
            in_trace = False
        if not _JAVA_FRAME.match(line):
            yield line


def format_log_line(line: str) -> str:
    """Return a line of a driver as text, with its level and stack trace where it was logged as JSON."""
    event = _parse_event(line)
    if event is None:
        return line
    text = _format_event(event, _normalize_level(str(event.get("level", "INFO"))))
    return f"{text}\n{str(event['trace']).rstrip()}" if "trace" in event else text


def _hide(folders: Sequence[str], text: str) -> str:
    for folder in folders:
        text = text.replace(folder, _HIDDEN_PATH)
    return text


def _add_levels(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pair each line with its level; a line without one, as in a stack trace, has the level of the previous line."""
    level = "INFO"
    for line in lines:
        event = _parse_event(line)
        if event is not None:
            level = _normalize_level(str(event.get("level", "INFO")))
            yield level, _format_event(event, level)
        else:
            log4j = _LOG4J.match(line)
            level = _normalize_level(log4j[1]) if log4j else level
            yield level, line


def _parse_event(line: str) -> Mapping[str, Any] | None:
    """Parse a line that the driver logged as JSON; return None for other lines."""
    try:
        value = json.loads(line) if line.startswith("{") else None
    except (ValueError, RecursionError):
        return None
    return cast(Mapping[str, Any], value) if isinstance(value, dict) and "event" in value else None


def _format_event(event: Mapping[str, Any], level: str) -> str:
    rest = (
        f"{key}={_format_value(value)}"
        for key, value in event.items()
        if key not in ("timestamp", "level", "event", "trace")
    )
    return " ".join([*filter(None, [str(event.get("timestamp", ""))]), level, str(event["event"]), *rest])


def _format_value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _normalize_level(name: str) -> str:
    upper = name.upper()
    return upper if upper in LEVELS else _SPELLINGS.get(upper, "INFO")
