"""Child processes of a supervisor: started in their own session, kept running, and ended with all they started."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

LINUX = sys.platform == "linux"
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
COLORS = (36, 32, 33, 35, 34, 96)
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
STABLE_SECONDS = 60
REAP_SECONDS = 2.0
LAST_WORDS_SECONDS = 1.0
NAME_WIDTH = 8


class Child:
    """One child; its output appears line by line behind its name."""

    _started = 0

    def __init__(self, name: str, command: Sequence[str], environment: dict[str, str], folder: Path) -> None:
        self._command = command
        self._environment = environment
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()
        color = COLORS[Child._started % len(COLORS)]
        Child._started += 1
        self.name = name
        plain = f"{name:<{NAME_WIDTH}} | "
        self._prefix = f"\x1b[{color}m{plain}\x1b[0m" if sys.stdout.isatty() else plain

    async def keep_running(self) -> None:
        """Starts it, and again whenever it ends, with growing pauses while it keeps ending soon."""
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            started = time.monotonic()
            exit_code = await self._run()
            if self._stopping.is_set():
                return
            if time.monotonic() - started > STABLE_SECONDS:
                pause = FIRST_PAUSE
            self._say(f"ended with exit code {exit_code}; starting it again in {pause:g} s")
            with suppress(TimeoutError):  # the pause is over
                await asyncio.wait_for(self._stopping.wait(), pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def stop(self, seconds: float) -> None:
        """Asks it to end, and makes it end when it has not after these seconds."""
        self._stopping.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        _signal_group(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):  # then it is made to end
            await asyncio.wait_for(process.wait(), seconds)
        _signal_group(process.pid, signal.SIGKILL)

    async def _run(self) -> int:
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command,
            cwd=self._folder,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent,
            limit=2**20,
        )
        if self._stopping.is_set():  # it was asked to end while it was being started
            _signal_group(process.pid, signal.SIGTERM)
        printing = asyncio.create_task(self._print(process.stdout))
        exit_code = await process.wait()
        await asyncio.wait([printing], timeout=LAST_WORDS_SECONDS)
        printing.cancel()  # what the child leaves behind may keep the pipe open
        return exit_code

    async def _print(self, stream: asyncio.StreamReader | None) -> None:
        while stream is not None and not stream.at_eof():
            with suppress(ValueError):  # a line longer than the stream's limit is left out
                self._say((await stream.readline()).decode(errors="replace").rstrip())

    def _say(self, line: str) -> None:
        if line:
            print(f"{self._prefix}{line}", flush=True)


def adopt_orphans() -> None:
    """On Linux, whatever a child leaves behind becomes this process's child, so that it can be found and ended."""
    if LINUX:
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


async def reap_adopted() -> None:
    """Takes the exit codes of adopted orphans while it runs. Those of own children asyncio takes at once:

    what is found ended twice in a row is nobody else's.
    """
    ended: set[int] = set()
    while True:
        await asyncio.sleep(REAP_SECONDS)
        seen, ended = ended, {pid for pid in _children(os.getpid()) if _has_ended(pid)}
        _take_exit_codes(seen & ended)


def end_descendants() -> None:
    """Ends what is still there of all that was started from here: TERM, and 5 s later KILL."""
    for number, seconds in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 1.0)):
        for pid in _descendants(os.getpid()):
            with suppress(ProcessLookupError):  # it ended meanwhile
                os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while _reap() and time.monotonic() < deadline:
            time.sleep(0.05)


def end_with_parent() -> None:
    """Called in a child: on Linux, one whose parent is killed does not stay behind."""
    if LINUX:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it ended meanwhile
        os.killpg(leader, number)


def _descendants(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield child
        yield from _descendants(child)


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):  # it ended meanwhile
            yield from map(int, (task / "children").read_text().split())


def _take_exit_codes(pids: set[int]) -> None:
    for pid in pids:
        with suppress(ChildProcessError):  # somebody waited for it already
            os.waitpid(pid, os.WNOHANG)


def _has_ended(pid: int) -> bool:
    """Whether only its exit code is left of the process: state Z, behind the name in proc(5)'s stat."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def _reap() -> bool:
    """Takes the exit codes of ended children; False when none is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
