"""The worker's side of a sandbox: it sends rows to the process of a user's function and checks the answers.

Rows are sent in batches and answered one by one, in JSON of a limited size. If the process is too slow, ends or sends
anything but the answer to the current row, that row fails, and the next row gets a new process.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from pipelines.errors import RunError
from pipelines.transforms import values

_JAIL = Path(__file__).with_name("jail.py")
_START_SECONDS = 30.0
_ENDING_SECONDS = 2.0
_MAX_ANSWER = 16 * 1024 * 1024
_MAX_MARKS = 1_000_000  # each may begin a value, which in memory is a hundred times larger
_MAX_MESSAGE = 500
_MAX_PRINTED = 256 * 1024  # characters of a sandbox, the rest is left out
PRINTED_LINE = "[row function {}] "  # before the lines that a user's function prints, and those of its tracebacks
_NO_ANSWER = "it gave no answer that could be read"
_MIB = 1024 * 1024
# libraries of packages take one thread: more would need processes and memory that a function may not have
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for one row. With `only_isolated`, functions do not run where the kernel cannot isolate them; otherwise
    they run there with the rights of this user.
    """

    seconds: float = 10.0
    memory_mib: int = 512
    only_isolated: bool = False


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function of a user's source text, to be called with a row and keyword arguments.

    Where it is isolated, it can read `folders` beside Python's own. `packages` is a folder that it imports from.
    """

    name: str
    source: str
    function: str
    arguments: Mapping[str, Any]
    limits: Limits
    folders: tuple[str, ...] = ()
    packages: str | None = None


class RowFailed(Exception):
    """The function returned no row; the message is in the row's `_error`, after the name of the function."""


Outcome = dict[str, Any] | RowFailed | None


class NotIsolated(RunError):
    """The kernel refuses to isolate a process; `reason` is its error."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{_NOT_ISOLATED} ({reason})")
        self.reason = reason


class _ProcessEnded(Exception):
    """The process ended before it answered."""


class Sandbox:
    """The process of one function, started on demand; `close` ends it."""

    def __init__(self, task: FunctionCall) -> None:
        self._task = task
        self._process: subprocess.Popen[bytes] | None = None
        self._unsent = memoryview(b"")
        self._unread = b""
        self._number = 0
        self._printable = _MAX_PRINTED

    def run(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Outcome]:
        """Yield the outcome of every row in order: the function's row, None to drop it, or a failure.

        Raises RunError if the function cannot be loaded. All rows are sent at once.
        """
        waiting, again = deque(rows), False
        if self._process and self._process.stdout and self._process.stdout.closed:
            self.close()  # the garbage collector closes the pipes of rows that nobody has taken
        try:
            while waiting:
                try:
                    for outcome in self._run_until_failure(waiting):
                        waiting.popleft()
                        again = False
                        yield outcome
                except _ProcessEnded:  # perhaps of its CPU limit before this row: try a new process
                    ending = self._describe_ending()
                    self.close()
                    if again:
                        waiting.popleft()
                        yield RowFailed(ending)
                    again = not again
        finally:
            if waiting:  # discard the other answers
                self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe:
                    pipe.close()
        self._process, self._unsent, self._unread = None, memoryview(b""), b""

    def _describe_ending(self) -> str:
        """Describe how the process has ended, by its exit code; a jail's outer process passes on signals as codes."""
        code = None
        if self._process:
            with suppress(subprocess.TimeoutExpired):
                code = self._process.wait(_ENDING_SECONDS)
        number = -code if code is not None and code < 0 else 256 - (code or 0)
        if code is None or number in {each.value for each in signal.Signals}:
            name = f" by {signal.Signals(number).name}" if code is not None else ""
            memory = self._task.limits.memory_mib
            return f"its process was ended{name}: it crashed, or needed more than the {memory} MiB that it may have"
        return f"it ended its process with exit code {code}"

    def _run_until_failure(self, rows: Collection[Mapping[str, Any]]) -> Iterator[Outcome]:
        """Yield outcomes up to the first failure of the process; raise _ProcessEnded if it ends."""
        process = self._process or self._start_process()
        numbers = range(self._number + 1, self._number + 1 + len(rows))
        self._number += len(rows)
        asked = ({"number": number, "row": row} for number, row in zip(numbers, rows, strict=True))
        self._unsent = memoryview(b"".join(map(_encode_line, asked)))
        for number in numbers:
            try:
                answer = self._receive_answer(process, self._task.limits.seconds)
                self._print(answer)
                if answer.get("number") != number:
                    raise RowFailed(_NO_ANSWER)
            except RowFailed as failure:
                self.close()
                yield failure
                return
            yield _read_outcome(answer, self._task.limits)

    def _start_process(self) -> subprocess.Popen[bytes]:
        """Start the process; it confirms its limits before it receives the user's text."""
        task, limits = self._task, self._task.limits
        if task.packages and not os.path.isdir(task.packages):
            raise RunError(f"the packages of {task.name} are not on this machine: {task.packages} is no folder")
        isolated = limits.only_isolated or get_isolation_refusal() is None
        process = self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-X", "utf8", str(_JAIL)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LANG": "C.UTF-8", "TZ": "UTC", **(_ONE_THREAD if task.packages else {})},
            bufsize=0,
            start_new_session=True,
        )
        for pipe in (process.stdin, process.stdout):
            os.set_blocking(_get_descriptor(pipe), False)
        folders = [*task.folders, *([task.packages] if task.packages else [])]
        held = self._request(process, {"memory": limits.memory_mib * _MIB, "isolated": isolated, "folders": folders})
        if "refused" in held:
            self.close()
            raise NotIsolated(_make_printable(held["refused"]))
        self._check_answer(held, "held")
        text = {
            "source": task.source,
            "function": task.function,
            "arguments": dict(task.arguments),
            "packages": task.packages,
        }
        self._check_answer(self._request(process, text), "ready")
        return process

    def _request(self, process: subprocess.Popen[bytes], what: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to one of the two messages before the rows."""
        self._unsent = memoryview(_encode_line(what))
        try:
            return self._receive_answer(process, _START_SECONDS)
        except (_ProcessEnded, RowFailed):
            return {"broken": "it ended its process, or took too long or too much memory to load"}

    def _print(self, answer: Mapping[str, Any]) -> None:
        """Write the printed text of the function, and its traceback, to stderr, which in a driver is its masked log."""
        for line in f"{answer.get('printed', '')}\n{answer.get('trace', '')}".splitlines():
            if line and self._printable > 0:
                shown = f"{PRINTED_LINE.format(self._task.name)}{_make_printable(line)}\n"
                self._printable -= len(shown)
                sys.stderr.write(shown if self._printable > 0 else f"{shown.rstrip()} (later output is left out)\n")
        sys.stderr.flush()

    def _check_answer(self, answer: Mapping[str, Any], state: str) -> None:
        self._print(answer)
        if answer.get(state) is not True:
            self.close()
            raise RunError(f"{self._task.name} cannot be loaded: {_make_printable(answer.get('broken', _NO_ANSWER))}")

    def _receive_answer(self, process: subprocess.Popen[bytes], seconds: float) -> dict[str, Any]:
        """Return the next answer; raise _ProcessEnded, or RowFailed for a late or malformed one."""
        line = self._read(process, time.monotonic() + seconds)
        if sum(map(line.count, (b"[", b"{", b","))) > _MAX_MARKS:
            raise RowFailed(f"its row has more than {_MAX_MARKS:,} commas and brackets, in texts and between values")
        try:
            answer = values.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise RowFailed(_NO_ANSWER)
        return cast(dict[str, Any], answer)

    def _read(self, process: subprocess.Popen[bytes], deadline: float) -> bytes:
        """Read a line."""
        parts = [self._unread]
        size = len(self._unread)
        while b"\n" not in parts[-1]:
            parts.append(self._receive(process, deadline))
            size += len(parts[-1])
            if size > _MAX_ANSWER:
                raise RowFailed(f"its row has more than {_MAX_ANSWER // _MIB} MiB")
        line, _, self._unread = b"".join(parts).partition(b"\n")
        return line

    def _receive(self, process: subprocess.Popen[bytes], deadline: float) -> bytes:
        """Wait for output of the process, and send the rest of the input."""
        number = _get_descriptor(process.stdout)
        while True:
            self._send(process)
            try:
                part = os.read(number, 1 << 20)
            except BlockingIOError:
                self._wait(process, deadline)
                continue
            if not part:
                raise _ProcessEnded
            return part

    def _send(self, process: subprocess.Popen[bytes]) -> None:
        """Write as much as fits into the pipe."""
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(_get_descriptor(process.stdin), self._unsent) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # it has ended; its earlier output counts
            self._unsent = memoryview(b"")

    def _wait(self, process: subprocess.Popen[bytes], deadline: float) -> None:
        poll = select.poll()
        poll.register(_get_descriptor(process.stdout), select.POLLIN)
        if self._unsent:
            poll.register(_get_descriptor(process.stdin), select.POLLOUT)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise RowFailed(f"it took longer than {self._task.limits.seconds:g} s for a row")


@cache
def get_isolation_refusal() -> str | None:
    """Return the reason why users' functions are not isolated on this machine, found by a trial."""
    box = Sandbox(FunctionCall("the function", "def f(row): return row", "f", {}, Limits(only_isolated=True)))
    try:
        list(box.run([{}]))
    except NotIsolated as refused:
        return refused.reason
    finally:
        box.close()
    return None


_NOT_ISOLATED = (
    "this server has several organizations, so a user's Python runs only where it can be isolated, and here it cannot: "
    "the operator must allow Linux namespaces, or run drivers on a cluster"
)


def _encode_line(request: Mapping[str, Any]) -> bytes:
    return values.dumps(request).encode() + b"\n"


def _read_outcome(answer: Mapping[str, Any], limits: Limits) -> Outcome:
    if "error" in answer:
        error = _make_printable(answer["error"])
        return RowFailed(f"{error} (it may have {limits.memory_mib} MiB)" if error.endswith("MemoryError") else error)
    result = answer.get("row")
    if result is not None and not isinstance(result, dict):
        return RowFailed("it returned no row")
    return cast(dict[str, Any] | None, result)


def _get_descriptor(pipe: Any) -> int:
    return cast(int, pipe.fileno())


def _make_printable(text: object) -> str:
    """Return a message of the user's process without unprintable characters, truncated."""
    shown = "".join(character if character.isprintable() else " " for character in str(text)[:_MAX_MESSAGE])
    return shown.encode(errors="replace").decode()
