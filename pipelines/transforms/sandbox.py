"""A worker's side of the process that runs a user's row transform: started once, limited, and never believed.

What comes back is JSON of a limited size for exactly the row that was asked; a process that takes too long, ends or
answers anything else costs that row, and the next row gets a new process.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pipelines.errors import RunError
from pipelines.transforms import values

_JAIL = Path(__file__).with_name("jail.py")
_START_SECONDS = 30.0
_LONGEST_ANSWER = 64 * 1024 * 1024
_LONGEST_MESSAGE = 500
_NO_ANSWER = "it gave no answer that could be read"
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What one row may take; `isolated` when the process must reach nothing of the service and of other users."""

    seconds: float = 10.0
    memory_mib: int = 512
    isolated: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """A function of a user's text, called with a row and keyword arguments."""

    name: str
    source: str
    function: str
    arguments: Mapping[str, Any]
    limits: Limits


class RowFailed(Exception):
    """The function gave no row: the message says why, for the row's `_error` behind its name."""


class _Ended(Exception):
    """The process ended before it answered."""


class Sandbox:
    """Runs a task's function on one row after another; `close` ends its process."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._number = 0

    def call(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """The function's row; raises RowFailed, and RunError where the function can be run at all."""
        try:
            answer = self._ask(row)
        except _Ended:
            answer = self._again(row)
        if "error" in answer:
            raise RowFailed(_shown(answer["error"]))
        result = answer.get("row")
        if result is not None and not isinstance(result, dict):
            raise RowFailed("it returned no row")
        return cast(dict[str, Any] | None, result)

    def close(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe:
                    pipe.close()
        self._process, self._unread = None, b""

    def _again(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A process may have ended because its time was up, before this row."""
        self.close()
        try:
            return self._ask(row)
        except _Ended:
            self.close()
            raise RowFailed("it ended its process, or needed too much memory") from None

    def _ask(self, row: Mapping[str, Any]) -> dict[str, Any]:
        process = self._process or self._start()
        self._number += 1
        answer = self._exchange(process, {"number": self._number, "row": row}, self._task.limits.seconds)
        if answer.get("number") != self._number:
            raise self._failed(_NO_ANSWER)
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        process = self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-X", "utf8", str(_JAIL)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LANG": "C.UTF-8", "TZ": "UTC"},
            bufsize=0,
            start_new_session=True,
        )
        task, limits = self._task, self._task.limits
        told = {"source": task.source, "function": task.function, "arguments": dict(task.arguments)}
        told |= {"memory": limits.memory_mib * _MIB, "isolated": limits.isolated}
        for pipe in (process.stdin, process.stdout):
            os.set_blocking(_number(pipe), False)
        try:
            answer = self._exchange(process, told, _START_SECONDS)
        except (_Ended, RowFailed):
            answer = {"broken": "it ended its process, or took too long or too much memory to load"}
        self._check(answer)
        return process

    def _check(self, answer: Mapping[str, Any]) -> None:
        if answer.get("ready") is True:
            return
        self.close()
        if "refused" in answer:
            raise RunError(f"{NOT_ISOLATED} ({_shown(answer['refused'])})")
        raise RunError(f"{self._task.name} cannot be loaded: {_shown(answer.get('broken'))}")

    def _exchange(self, process: subprocess.Popen[bytes], request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Sends a line and takes one; raises _Ended, and RowFailed when it takes too long or is no answer."""
        deadline = time.monotonic() + seconds
        self._write(process, values.dumps(request).encode() + b"\n", deadline)
        line = self._read(process, deadline)
        try:
            answer = values.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise self._failed(_NO_ANSWER)
        return cast(dict[str, Any], answer)

    def _write(self, process: subprocess.Popen[bytes], request: bytes, deadline: float) -> None:
        number, left = _number(process.stdin), memoryview(request)
        while left:
            self._wait(number, select.POLLOUT, deadline)
            try:
                left = left[os.write(number, left) :]
            except BrokenPipeError:
                raise _Ended from None

    def _read(self, process: subprocess.Popen[bytes], deadline: float) -> bytes:
        number = _number(process.stdout)
        parts = [self._unread]
        size = len(self._unread)
        while b"\n" not in parts[-1]:
            self._wait(number, select.POLLIN, deadline)
            part = os.read(number, 1 << 20)
            if not part:
                raise _Ended
            parts.append(part)
            size += len(part)
            if size > _LONGEST_ANSWER:
                raise self._failed(f"its row has more than {_LONGEST_ANSWER // _MIB} MiB")
        line, _, self._unread = b"".join(parts).partition(b"\n")
        return line

    def _wait(self, number: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(number, event)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise self._failed(f"it took longer than {self._task.limits.seconds:g} s for a row")

    def _failed(self, reason: str) -> RowFailed:
        self.close()
        return RowFailed(reason)


NOT_ISOLATED = (
    "this server has several organizations, so a user's Python runs only where it can be isolated, and here it cannot: "
    "the operator must allow Linux namespaces, or run drivers on a cluster"
)


def _number(pipe: Any) -> int:
    return cast(int, pipe.fileno())


def _shown(text: object) -> str:
    """A message of the user's process, as far as it can be shown."""
    shown = "".join(character if character.isprintable() else " " for character in str(text)[:_LONGEST_MESSAGE])
    return shown.encode(errors="replace").decode()
