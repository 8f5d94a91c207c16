"""The output of child processes: all lines go to a file, and the terminal shows those that need attention."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from logging import Formatter, LogRecord, makeLogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path

MAX_BYTES, OLD_FILES = 20 * 2**20, 3
COLORS = (36, 32, 33, 35, 34, 96)
NAME_WIDTH = 8
_QUIET_LEVELS = ("debug", "info")
_QUIET_MARK = re.compile(r" - (\x1b\[\d+m)?(DEBUG|INFO)(\x1b\[0m)? - ")  # of Dagster's own lines


class ProcessLog:
    """Writes lines to `path`, which is rotated, and prints warnings; with `verbose` it prints all lines.

    A full disk loses lines and stops nobody: the first line that is written again tells how many.
    """

    def __init__(self, path: Path, verbose: bool = False) -> None:
        self._file = _LogFile(path, maxBytes=MAX_BYTES, backupCount=OLD_FILES, encoding="utf-8")
        self._file.setFormatter(Formatter("%(asctime)s %(message)s"))
        path.chmod(0o600)
        self._verbose = verbose
        self._colors: dict[str, int] = {}
        self._lost: Counter[Callable[[str], None]] = Counter()

    def write(self, name: str, line: str) -> None:
        """Write a line of the process `name`."""
        plain = f"{name:<{NAME_WIDTH}} | "
        self._write(self._file.write, f"{plain}{line}")
        if self._verbose or needs_attention(line):
            color = self._colors.setdefault(name, COLORS[len(self._colors) % len(COLORS)])
            prefix = f"\x1b[{color}m{plain}\x1b[0m" if sys.stdout.isatty() else plain
            self._write(_print, f"{prefix}{line}")

    def close(self) -> None:
        self._file.close()

    def _write(self, output: Callable[[str], None], line: str) -> None:
        try:
            if self._lost[output]:
                output(f"{'log':<{NAME_WIDTH}} | {self._lost[output]} lines were lost while their disk was full")
                del self._lost[output]
            output(line)
        except OSError:
            self._lost[output] += 1


class _LogFile(RotatingFileHandler):
    def write(self, line: str) -> None:
        self.emit(makeLogRecord({"msg": line}))

    def handleError(self, record: LogRecord) -> None:
        raise


def _print(line: str) -> None:
    print(line, flush=True)


def needs_attention(line: str) -> bool:
    """Return whether a line is neither a log entry of level info or below nor Dagster's spelling of one."""
    if not line.startswith("{"):
        return _QUIET_MARK.search(line) is None
    try:
        return json.loads(line).get("level") not in _QUIET_LEVELS
    except ValueError:
        return True
