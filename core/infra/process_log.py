"""The output of child processes: JSON lines in a file, and warnings on the terminal."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from logging import LogRecord, makeLogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, cast

from core.infra.settings.service import LogFormat

MAX_BYTES, OLD_FILES = 20 * 2**20, 3
COLORS = (36, 32, 33, 35, 34, 96)
NAME_WIDTH = 8
SUPERVISOR = "spindle"
_QUIET_LEVELS = ("debug", "info")
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
# Dagster's own lines: time, logger, level, text
_DAGSTER_LINE = re.compile(r"[0-9].*? - (?P<logger>[\w.:-]+) - (?P<level>[A-Z]+) - (?P<event>.*)", re.DOTALL)


class ProcessLog:
    """Writes lines to `path`, which is rotated, and prints warnings; with `verbose` it prints all lines.

    With the format `json` it prints all lines as they are in the file, for what reads the output of a container. A full
    disk loses lines and stops nobody: the first line that is written again comes after one that counts them.
    """

    def __init__(self, path: Path, verbose: bool = False, log_format: LogFormat = "text") -> None:
        self._file = _LogFile(
            path, maxBytes=MAX_BYTES, backupCount=OLD_FILES, encoding="utf-8", errors="backslashreplace"
        )
        path.chmod(0o600)
        self._verbose = verbose
        self._prints_json = log_format == "json"
        self._colors: dict[str, int] = {}
        self._lost: Counter[Callable[[str], None]] = Counter()

    def write(self, name: str, line: str) -> None:
        """Write a line of the process `name`."""
        entry = read_entry(name, line)
        text = self._store(entry)
        if self._prints_json:
            self._put(_print, text)
        elif self._verbose or entry["level"] not in _QUIET_LEVELS:
            plain = f"{name:<{NAME_WIDTH}} | "
            color = self._colors.setdefault(name, COLORS[len(self._colors) % len(COLORS)])
            prefix = f"\x1b[{color}m{plain}\x1b[0m" if sys.stdout.isatty() else plain
            self._put(_print, f"{prefix}{line}")

    def tell(self, sentence: str) -> None:
        """Print a sentence of the supervisor itself."""
        text = self._store(_make_entry(SUPERVISOR, "info", sentence.strip()))
        self._put(_print, text if self._prints_json else sentence)

    def close(self) -> None:
        self._file.close()

    def _store(self, entry: dict[str, Any]) -> str:
        text = json.dumps(entry, ensure_ascii=False)
        self._put(self._file.write, text)
        return text

    def _put(self, output: Callable[[str], None], text: str) -> None:
        try:
            if self._lost[output]:
                sentence = f"{self._lost[output]} lines were lost while their disk was full"
                output(json.dumps(_make_entry(SUPERVISOR, "warning", sentence)))
                del self._lost[output]
            output(text)
        except OSError:
            self._lost[output] += 1


class _LogFile(RotatingFileHandler):
    def write(self, line: str) -> None:
        self.emit(makeLogRecord({"msg": line}))

    def handleError(self, record: LogRecord) -> None:
        raise


def _print(line: str) -> None:
    print(line, flush=True)


def read_entry(name: str, line: str) -> dict[str, Any]:
    """Return a line of the process `name` as an object: `timestamp`, `level`, `process`, `event`, and its own fields.

    A line that is neither JSON nor of Dagster's form, such as that of a traceback, is a warning.
    """
    if line.startswith("{"):
        try:
            return _make_entry(name, "warning", "") | cast(dict[str, Any], json.loads(line))
        except (ValueError, RecursionError):
            pass
    plain = _COLOR.sub("", line)
    if found := _DAGSTER_LINE.fullmatch(plain):
        return _make_entry(name, found["level"].lower(), found["event"]) | {"logger": found["logger"]}
    return _make_entry(name, "warning", plain)


def _make_entry(name: str, level: str, event: str) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return {"timestamp": now, "level": level, "process": name, "event": event}
