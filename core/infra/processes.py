"""Child processes of a supervisor: restarted when they exit, and terminated together with their descendants."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from core.infra.process_log import ProcessLog

LINUX = sys.platform == "linux"
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
STABLE_SECONDS = 60
REAP_SECONDS = 2.0
FINAL_OUTPUT_SECONDS = 0.2


class Process(Protocol):
    """A started process, as asyncio's, or a fork."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    async def wait(self) -> int: ...


class Child:
    """One child process, with a log of its output line by line.

    `start` starts it, with the descriptor for its output.
    """

    def __init__(self, name: str, start: Callable[[int], Awaitable[Process]], log: ProcessLog) -> None:
        self._start = start
        self._process: Process | None = None
        self._printing: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._log = log
        self.name = name

    async def keep_running(self) -> None:
        """Start the child and restart it whenever it exits, after growing pauses while it keeps exiting early."""
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            started = time.monotonic()
            try:
                end = f"exited with code {await self._run()}"
            except OSError as error:  # no process can be started: a limit, or no memory
                end = f"cannot be started ({error.strerror})"
            if self._stopping.is_set():
                return
            if time.monotonic() - started > STABLE_SECONDS:
                pause = FIRST_PAUSE
            self._print_line(f"{end}; restarting in {pause:g} s")
            with suppress(TimeoutError):  # the pause is over
                await asyncio.wait_for(self._stopping.wait(), pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def stop(self, seconds: float) -> None:
        """Send SIGTERM, and SIGKILL after these seconds."""
        self._stopping.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        signal_group(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):  # SIGKILL follows
            await asyncio.wait_for(process.wait(), seconds)
        signal_group(process.pid, signal.SIGKILL)

    def terminate(self) -> None:
        """Send another SIGTERM to a child that is stopping."""
        if self._process is not None and self._process.returncode is None:
            signal_group(self._process.pid, signal.SIGTERM)

    def kill(self, reason: str) -> None:
        """End the child at once, so that it is started again."""
        if self._process is not None and self._process.returncode is None:
            self._print_line(reason)
            signal_group(self._process.pid, signal.SIGKILL)

    async def _run(self) -> int:
        # not a pipe of asyncio, whose wait() would also wait for descendants that keep the pipe open
        reading, writing = os.pipe()
        try:
            process = self._process = await self._start(writing)
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        if self._stopping.is_set():  # stop() was called during the start
            signal_group(process.pid, signal.SIGTERM)
        printing = asyncio.create_task(self._print(os.fdopen(reading, "rb", 0)))
        exit_code = await process.wait()
        self._printing.add(printing)  # goes on, since descendants may still write
        printing.add_done_callback(self._printing.discard)
        await asyncio.wait([printing], timeout=FINAL_OUTPUT_SECONDS)
        return exit_code

    async def _print(self, pipe: IO[bytes]) -> None:
        """Print the lines of a pipe until no process has it open for writing."""
        stream = asyncio.StreamReader(limit=2**20)
        protocol = asyncio.StreamReaderProtocol(stream)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
        try:
            while not stream.at_eof():
                with suppress(ValueError):  # a line beyond the stream's limit is dropped
                    self._print_line((await stream.readline()).decode(errors="replace").rstrip())
        finally:
            transport.close()

    def _print_line(self, line: str) -> None:
        if line:
            self._log.write(self.name, line)


async def start_command(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, output: int
) -> asyncio.subprocess.Process:
    """Start a command in a new session, which ends with this process; output goes to a descriptor."""
    return await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=terminate_with_parent,
    )


def adopt_orphans() -> None:
    """On Linux, make orphaned descendants children of this process, so that it can find and terminate them."""
    if LINUX:
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


async def reap_adopted() -> None:
    """Reap adopted orphans until cancelled.

    asyncio reaps its own children at once, so a process found dead twice in a row is an orphan.
    """
    dead: set[int] = set()
    while True:
        await asyncio.sleep(REAP_SECONDS)
        previous, dead = dead, {pid for pid in _list_children(os.getpid()) if _is_zombie(pid)}
        _reap_all(previous & dead)


def terminate_descendants() -> None:
    """Terminate all remaining descendants: SIGTERM, and SIGKILL after 5 s."""
    for number, seconds in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 1.0)):
        for pid in _list_descendants(os.getpid()):
            with suppress(ProcessLookupError):  # it has exited
                os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while _reap() and time.monotonic() < deadline:
            time.sleep(0.05)


def terminate_with_parent() -> None:
    """Ask Linux to send this process SIGTERM when its parent dies; called in the child."""
    if LINUX:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def signal_group(leader: int, number: signal.Signals) -> None:
    """Send a signal to the processes of a group; do nothing when all have exited."""
    with suppress(ProcessLookupError):  # it has exited
        os.killpg(leader, number)


def _list_descendants(pid: int) -> Iterator[int]:
    for child in _list_children(pid):
        yield child
        yield from _list_descendants(child)


def _list_children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):  # it has exited
            yield from map(int, (task / "children").read_text().split())


def _reap_all(pids: set[int]) -> None:
    for pid in pids:
        with suppress(ChildProcessError):  # it was reaped already
            os.waitpid(pid, os.WNOHANG)


def _is_zombie(pid: int) -> bool:
    """Return whether the process is a zombie: state Z after the name in /proc/PID/stat."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def _reap() -> bool:
    """Reap dead children; return False when there are no children left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
