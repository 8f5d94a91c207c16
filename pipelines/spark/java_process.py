"""The JVM of a Spark session: its standard error, its log file, and the sentence about its unexpected end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark import SparkContext

DEFAULT_HEAP = "1g"  # Spark's own
_INCUBATOR_WARNING = b"WARNING: Using incubator modules: "
_STDERR = 2
_KEPT_LINES, _KEPT_BYTES = 200, 64 * 1024
_END_SECONDS = 5.0
_OUT_OF_MEMORY = re.compile(r"java\.lang\.OutOfMemoryError(: [^\n]+)?")
_LOGGED = re.compile(r"^\S+ (?:ERROR|FATAL) (?P<message>.+)$")
_SPARK_OUT_OF_MEMORY = 52  # Spark's exit code after an OutOfMemoryError
_registered: list[JavaProcess] = []


class JavaProcess:
    """The JVM that a session starts, with a heap of at most `heap`; `log` is the file for its log.

    Without a log file, its log is on standard error.
    """

    def __init__(self, heap: str, log: Path | None = None) -> None:
        self._heap = heap
        self._log = log
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._reader: threading.Thread | None = None

    @contextmanager
    def capture_stderr(self) -> Generator[None]:
        """Give a JVM that starts in the block a standard error that is copied to ours, and to the log file.

        The warning about incubator modules is left out: Spark always adds one, and Java has no option against it.
        """
        stderr = os.dup(_STDERR)
        reader, writer = os.pipe()
        os.dup2(writer, _STDERR)
        os.close(writer)
        self._reader = threading.Thread(
            target=self._copy_lines, args=(reader, stderr), name="stderr of Java", daemon=True
        )
        self._reader.start()
        try:
            yield
        finally:
            os.dup2(stderr, _STDERR)

    def describe_end(self, reason: str | None = None) -> str:
        """Return the sentence about an unexpected end: its reason, the JVM's heap, and the place of its log.

        Without a reason it is in the JVM's last words.
        """
        code = None if reason else self._await_end()
        words = reason or find_last_words(self._read_last_lines())
        if words is None and code == -signal.SIGKILL:
            words = "it was killed, as Linux does when the machine has no memory left"
        if words is None and code == _SPARK_OUT_OF_MEMORY:
            words = "it ran out of memory"
        heap = f"its heap is limited to {self._heap} (SPINDLE_SPARK_DRIVER_MEMORY)"
        place = f"its log is {self._log}" if self._log else "the log has its last lines"
        return f"Spark ended unexpectedly: {words or 'it left no reason'}; {heap}; {place}"

    def _copy_lines(self, reader: int, target: int) -> None:
        """Copy lines until all processes that write them have ended."""
        log = self._log.open("ab", buffering=0) if self._log else None
        with os.fdopen(reader, "rb") as lines, os.fdopen(target, "wb", buffering=0) as output:
            for line in lines:
                if _INCUBATOR_WARNING in line:
                    continue
                output.write(line)
                self._lines.append(line.decode(errors="replace"))
                if log:
                    log.write(line)
        if log:
            log.close()

    def _await_end(self) -> int | None:
        """Return the JVM's exit code once it has ended and its lines are read; None while it runs."""
        gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
        process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
        code = None
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(_END_SECONDS)
        if self._reader and (process is None or code is not None):
            self._reader.join(_END_SECONDS)
        return code

    def _read_last_lines(self) -> list[str]:
        if self._log is None or not self._log.exists():
            return [*self._lines]
        return self._log.read_bytes()[-_KEPT_BYTES:].decode(errors="replace").splitlines()


def register_java(heap: str, log: Path | None) -> JavaProcess:
    """Return the JVM of this Python process: the first session starts it, and later ones use it too."""
    if not _registered:
        _registered.append(JavaProcess(heap, log))
    return _registered[0]


def describe_end(reason: str | None = None) -> str:
    """Return the sentence about the unexpected end of this Python process's JVM."""
    return register_java(DEFAULT_HEAP, None).describe_end(reason)


def find_last_words(lines: Iterable[str]) -> str | None:
    """Return the reason for the end of a JVM in its last lines: that its memory was full, or its last error."""
    written = [line.strip() for line in lines]
    if full := [match[0] for line in written if (match := _OUT_OF_MEMORY.search(line))]:
        return full[-1]
    logged = [match["message"] for line in written if (match := _LOGGED.match(line))]
    return logged[-1] if logged else None
