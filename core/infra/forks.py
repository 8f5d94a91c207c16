"""Forks of this process: they begin their work within milliseconds, with everything imported, and share its memory.

A process that forks has no threads and no connections, because a fork would not survive them.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from traceback import print_exc
from typing import TypeVar

from core.infra.processes import LINUX, Process, start_command, terminate_with_parent

T = TypeVar("T")


def fork(title: str, run: Callable[[], object]) -> int:
    """Fork a process that executes `run` and exits; return its pid.

    It has the default handlers of signals. Its exit code is that of a Python program; nothing of the caller's stack is
    unwound in it. `title` is its command line in the list of processes.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the handlers are still the parent's
    try:
        pid = os.fork()
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise
    if pid == 0:
        exit_code = 1
        try:
            exit_code = _run_to_exit_code(title, run, mask)
        finally:  # also where the output cannot be written: the stack below is the parent's
            os._exit(exit_code)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


def _run_to_exit_code(title: str, run: Callable[[], object], mask: set[int]) -> int:
    exit_code = 1
    try:
        gc.freeze()  # otherwise the collector would copy all memory that is shared with the parent
        signal.set_wakeup_fd(-1)
        for number, handler in (
            (signal.SIGCHLD, signal.SIG_DFL),
            (signal.SIGTERM, signal.SIG_DFL),
            (signal.SIGINT, signal.default_int_handler),
        ):
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _set_title(title)
        run()
        exit_code = 0
    except SystemExit as end:
        exit_code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        print_exc()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return exit_code


def _set_title(title: str) -> None:
    """Write the words over the command line of this process: Linux shows the memory in which it was started."""
    if LINUX:
        start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
        words = title.replace(" ", "\0").encode()[: max(0, end - start - 1)]
        if words:  # some kernels hide the addresses
            ctypes.memset(start, 0, end - start)
            ctypes.memmove(start, words, len(words))


def _replace_descriptors(output: int) -> None:
    """Keep nothing open but an output: locks and connections are the parent's.

    The numbers stay taken, since objects of the parent still have them: logging closes its handlers' when it is
    configured, and would close a file that has the number by then.
    """
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target in (1, 2):
        os.dup2(output, target)
    for target in (0, *(each for each in map(int, os.listdir("/proc/self/fd")) if each > 2)):
        if target != nothing:
            os.dup2(nothing, target, inheritable=target == 0)


@dataclass(frozen=True, slots=True)
class Program:
    """A module with a function `main`, which reads `sys.argv`: a command of an interpreter, or the work of a fork."""

    module: str
    arguments: tuple[str, ...] = ()
    title: str = ""
    name: str = ""
    """By which the database shows its connections."""

    @property
    def command(self) -> list[str]:
        """The command; `-P` keeps files in the working directory from shadowing modules."""
        return [sys.executable, "-P", "-m", self.module, *self.arguments]

    def run(self) -> None:
        sys.argv = [self.module, *self.arguments]
        import_module(self.file_module).main()

    @property
    def file_module(self) -> str:
        spec = find_spec(self.module)
        return f"{self.module}.__main__" if spec and spec.submodule_search_locations else self.module


class Fork:
    """A forked child of a process with a running event loop, which waits for it without a thread."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = asyncio.Event()
        self._descriptor = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._descriptor, self._reap)

    async def wait(self) -> int:
        await self._ended.wait()
        return self.returncode or 0

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self._ended.set()


class WarmParent:
    """Forks programs from this process, which has imported what they need and stays as it is.

    On macOS, whose libraries do not survive a fork, it starts interpreters.
    """

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment = environment
        self._folder = folder
        self._single_threaded = asyncio.Lock()

    async def import_modules(self, *names: str) -> None:
        """Import modules for later forks."""
        if not LINUX:
            return
        for name in names:
            await asyncio.sleep(0)  # children are started in this time
            gc.disable()
            import_module(name)
            gc.freeze()
            gc.enable()

    async def start(self, program: Program, output: int) -> Process:
        """Start a program, with a descriptor for its output. It ends with this process."""
        if not LINUX:
            return await start_command(program.command, self._build_environment(program), self._folder, output)
        async with self._single_threaded:
            title = f"spindle {program.title or program.module}"
            return Fork(fork(title, partial(self._run, program, output, os.getpid())))

    async def call_in_thread(self, function: Callable[[], T]) -> T:
        """Call a function that blocks, in a thread that ends with it; there is no fork in that time."""
        async with self._single_threaded:
            pool = ThreadPoolExecutor(1)
            try:
                result = await asyncio.get_running_loop().run_in_executor(pool, function)
            except asyncio.CancelledError:
                pool.shutdown(wait=False)  # a silent database would hold up the stop of the children
                raise
            except BaseException:
                pool.shutdown()
                raise
            pool.shutdown()
            return result

    def _build_environment(self, program: Program) -> dict[str, str]:
        return {**self._environment, **({"PGAPPNAME": f"spindle {program.name}"} if program.name else {})}

    def _run(self, program: Program, output: int, parent: int) -> None:
        """In the fork: become like a new process with this environment, and run the program."""
        os.setsid()
        terminate_with_parent()
        if os.getppid() != parent:  # it has just ended
            return
        _replace_descriptors(output)
        sys.stdout, sys.stderr = (os.fdopen(each, "w", buffering=1, closefd=False) for each in (1, 2))
        os.chdir(self._folder)
        os.environ.clear()
        os.environ.update(self._build_environment(program))
        time.tzset()
        program.run()
